// SPDX-License-Identifier: Apache-2.0
#pragma once
// The cell of a woven step, with the words that its items are.

#include <vector>

#include "absl/status/statusor.h"
#include "proto/spec/strands/weave_plan.h"
#include "worker/engine/cost/model.h"
#include "worker/engine/program/program.h"
#include "worker/engine/schedule/search/cell_items.h"

namespace stretto {

struct WovenCell {
  CellItems cell;
  PerQueue<std::vector<WeaveLine>> words;  // of each item, a line of one word
  Merge given;                             // the present order of the unit
  Program program;                         // the unit, as a program of its own
  std::vector<OpId> ops;                   // of each operation of `cell`, in `program`
};

// Returns the cell of forward and backward of a step, whose lanes are assigned, at the durations of
// operations that run alone. No merge of it breaks `pace` or a dependency, or lets backward
// enter a layer before the weight gradients of the layers above. Errors: InvalidArgument,
// if the step has no such cell; Internal, if a word needs a later one of its queue.
absl::StatusOr<WovenCell> WovenCellOf(const StepProgram& step, const CostModel& cost, int pace);

// Returns the plan that plays the words in this order. Neighbours of one strand, layer and slice
// share a line.
WeavePlan PlanOfMerge(const WovenCell& cell, int pace, const Merge& order);

}  // namespace stretto
