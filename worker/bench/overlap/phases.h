// SPDX-License-Identifier: Apache-2.0
#pragma once
// A run of a program cut into forward and backward (docs/BENCHMARKS.md, "The overlap benchmark").
// Pure functions of numbers.

#include <vector>

#include "absl/types/span.h"
#include "worker/engine/exec/executor.h"
#include "worker/engine/program/program.h"

namespace stretto::bench {

// Seconds.
struct PhaseTimes {
  double seconds = 0;
  double communication = 0;  // |M|, M the union of the phase's collectives
  double hidden = 0;         // |C and M|, C the union of all computations

  // The share of |M| that no computation hides; 0 without communication.
  double exposed_share() const { return communication > 0 ? 1 - hidden / communication : 0; }
};

// Forward runs from the begin of its first operation to the end of its last on any lane; backward
// (recomputation included, and the loss, which nothing waits for) from there to its own last end;
// `step` is both together. The optimizer has the rest from `begin` on, clearing gradients included.
struct StepTimes {
  PhaseTimes forward, backward, step;
  double optimizer = 0;
};

// `intervals` are those of `program`'s operations, which has some of forward; `begin` is not after
// any of them.
StepTimes TimesOf(const Program& program, absl::Span<const Interval> intervals, int64_t begin);

// Whether an operation of forward comes after one of backward on its lane: then the phases of a
// step have no boundary, and only the step's figures mean anything.
bool MixesPhases(const Program& program);

// For each operation, its share (0 to 1) during which the other side ran too: communication under a
// computation, computation under a collective.
std::vector<double> SharesUnderOtherSide(const Program& program,
                                         absl::Span<const Interval> intervals);

}  // namespace stretto::bench
