// SPDX-License-Identifier: Apache-2.0
#pragma once
// When activations are in use: the ground on which memory is planned.
//
// A buffer has one life per micro-batch whose operations use it (and one for operations of none),
// from the first access to the last; between two lives it holds nothing. An access that continues
// from an earlier life, by reading what that one left or by overlapping it in time, joins the two:
// so a buffer that several micro-batches fill for one product is in use until that has read it.

#include <vector>

#include "worker/engine/program/happens_before.h"
#include "worker/engine/program/program.h"

namespace stretto {

struct Life {
  int micro_batch = -1;  // one of those it belongs to
  // In operations looked at so far: the first access, the last, and the moment from which on
  // everything that starts comes after it, on any lane.
  int start = 0, end = 0, released = 0;
  // Per lane, as indices of operations: its first access, and its first operation that comes after
  // every access. FirstAfter::kNever for none.
  IdVector<LaneId, OpId> enters, leaves;

  // Every access of this life has completed before any of `other` starts, whatever the lanes do.
  // Operands of one operation are in use together.
  bool Before(const Life& other) const;
};

// The lives of one root buffer, one after the other.
using Lives = std::vector<Life>;

// Some life of the one is neither before nor after some life of the other.
bool Conflict(const Lives& a, const Lives& b);

struct LiveBuffers {
  IdVector<BufferId, Lives> of;  // empty unless it is a root activation that something touches
  int time = 0;                  // operations looked at: no start, end or release lies above
};

// Looks at the first and last few micro-batches only, as those between repeat them.
LiveBuffers LivesOf(const Program& program, const HappensBefore& order);

}  // namespace stretto
