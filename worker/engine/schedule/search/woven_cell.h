// SPDX-License-Identifier: Apache-2.0
#pragma once
// A cell of a woven step, as it is searched: with the words that its items are. And as it is
// played: with its operations in the order of any plan.

#include <vector>

#include "absl/status/statusor.h"
#include "proto/spec/strands/weave_plan.h"
#include "worker/engine/cost/model.h"
#include "worker/engine/program/program.h"
#include "worker/engine/schedule/search/cell_items.h"
#include "worker/engine/schedule/units.h"
#include "worker/engine/schedule/weave.h"

namespace stretto {

// What a transfer takes in a cell: nothing. It runs on lanes of its own beside the cells before and
// behind, and what it delays depends on other stages. So it is no item of a search either.
struct PlayedCell {
  Weaver weaver;                   // of the unit, which it borrows; nothing is played yet
  Program program;                 // the unit, as a program of its own
  IdVector<OpId, double> seconds;  // of its operations, alone
};

struct WovenCell {
  int forward_chunk = 0, backward_chunk = 0;
  CellItems cell;
  PerQueue<std::vector<WeaveLine>> words;  // of each item, a line of one word
  Merge given;                             // the present order of the unit
  std::vector<OpId> ops;                   // of each operation of `cell`, in the unit
  PlayedCell played;
};

// Returns the cell of a unit of a step, whose lanes are assigned. Borrows the step.
PlayedCell PlayedCellOf(const StepProgram& step, UnitId unit, const CostModel& cost);

// Returns the same with its items. No merge of it breaks `pace` or a dependency, or lets backward
// enter a layer before the weight gradients of the layers above. Errors: Internal, if a word needs
// a later one of its queue.
absl::StatusOr<WovenCell> WovenCellOf(const StepProgram& step, const WovenUnit& unit,
                                      const CostModel& cost, int pace);

// Returns the plan that plays the words in this order, on every stage. Neighbours of one strand,
// layer and slice share a line. Of folded stages it has all transfers of a cell, also those that
// this stage has not: a strand begins with its receive, and its send is behind its layers.
// With barriers behind these numbers of items, ascending.
WeavePlan PlanOfMerge(const WovenCell& cell, int pace, const Merge& order,
                      const std::vector<size_t>& barriers = {});

}  // namespace stretto
