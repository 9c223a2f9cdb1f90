// SPDX-License-Identifier: Apache-2.0
#pragma once
// The times at which activations are in use, from which memory is planned.
//
// A buffer has one life for each micro-batch whose operations use it, and one for operations
// outside micro-batches. A life lasts from the first access to the last; between two lives the
// buffer holds nothing. An access that continues an earlier life, by reading its value or by
// overlapping it in time, joins the two: a buffer that several micro-batches fill for one product
// is in use until the product has read it.

#include <vector>

#include "worker/engine/program/happens_before.h"
#include "worker/engine/program/program.h"

namespace stretto {

struct Life {
  int micro_batch = -1;  // one of those it belongs to
  // Times, counted in sampled operations: the first access, the last access, and the time from
  // which every operation that starts, on any lane, starts after all accesses.
  int start = 0, end = 0, released = 0;
  // Per lane, as indices of operations: the first access on the lane, and the first operation of
  // the lane that comes after every access. FirstAfter::kNever if there is none.
  IdVector<LaneId, OpId> enters, leaves;

  // Whether every access of this life completes before any access of `other` starts, in every
  // execution. Operands of one operation are in use together.
  bool Before(const Life& other) const;
};

// The lives of one root buffer, one after the other.
using Lives = std::vector<Life>;

// Whether any two lives overlap.
bool Conflict(const Lives& a, const Lives& b);

struct LiveBuffers {
  IdVector<BufferId, Lives> of;  // empty unless it is a root activation that something touches
  int time = 0;                  // operations sampled: an upper bound of start, end and released
};

// Samples the first and last few micro-batches only, because those between repeat them.
LiveBuffers LivesOf(const Program& program, const HappensBefore& order);

}  // namespace stretto
