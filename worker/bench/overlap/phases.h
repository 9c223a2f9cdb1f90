// SPDX-License-Identifier: Apache-2.0
#pragma once
// Divides a run of a program into forward and backward (docs/BENCHMARKS.md, "The overlap
// benchmark"). Pure functions of numbers.

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

// The passes of a step are forward and backward of each micro-batch in turn. Backward includes
// recomputation and the loss, because nothing waits for the loss. The first pass begins with its
// first operation; each other one begins where the one before it ended. A pass ends with its last
// operation on any lane. `forward` and `backward` are sums over micro-batches, `step` is both
// together, and `paired` is the step without its first and its last pass, which no pass of another
// micro-batch can run beside. The optimizer has the remaining time since `begin`, including
// clearing gradients.
struct StepTimes {
  PhaseTimes forward, backward, step, paired;
  double optimizer = 0;
};

// `intervals` are those of the operations of `program`, which must have operations of forward;
// `begin` is not later than any of them.
StepTimes TimesOf(const Program& program, absl::Span<const Interval> intervals, int64_t begin);

// Returns whether an operation comes after one of a later pass on its lane. Then passes have no
// boundary, and only the figures of the step are meaningful.
bool MixesPhases(const Program& program);

// Returns for each operation the share of its time (0 to 1) that overlaps the other side:
// communication under computation, or computation under a collective.
std::vector<double> SharesUnderOtherSide(const Program& program,
                                         absl::Span<const Interval> intervals);

}  // namespace stretto::bench
