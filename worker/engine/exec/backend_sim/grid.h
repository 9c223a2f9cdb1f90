// SPDX-License-Identifier: Apache-2.0
#pragma once
// Timelines as text for people: one line per lane, time from left to right, a box per operation.
//
//   12.0 ms to 15.6 ms, a column is 45.0 us
//   compute |ln1.0|qkv.0   |attention.0 |proj.0|ln1.1|...
//   comm.tp |..................................|AR(proj.0)   |.....
//
// "|" begins a box, dots are idle time, and ".0" is the slice. d(x) is the gradient of activations
// at x, w(x) the gradient of weights, r(x) a recomputation; AR, RS and AG are collectives. Where
// operations are too short for a label, boxes merge into those of a layer, of a pass over a
// micro-batch, or of a phase. It draws the intervals of any executor.

#include <string>

#include "absl/types/span.h"
#include "worker/engine/exec/executor.h"
#include "worker/engine/exec/ledger.h"
#include "worker/engine/program/program.h"

namespace stretto {

// Draws the part of a timeline in `window`, `columns` characters wide besides the lane names (at
// least 20). Intervals of a lane must be in order and not overlap.
std::string DrawGrid(const Program& program, absl::Span<const Interval> intervals, Interval window,
                     int columns);

// Returns the time from the first start to the last end of a layer's operations in a phase, in the
// first micro-batch that has it. Weight gradients do not count, because schedules move them.
// Returns {0, 0} when there is none.
Interval LayerWindow(const Program& program, absl::Span<const Interval> intervals, int layer,
                     Phase phase);

// Prints one line per entry: part, group, phase, time, share of the step; then the sum.
std::string PrintLedger(const StepLedger& ledger);

}  // namespace stretto
