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

struct CellWord {
  Queue queue = Queue::kForward;
  WeaveLine line;  // one word
};

// The queues have the order of the default plan, whatever plan the unit is woven by: a search finds
// the same, and a plan may have an order in which no search could keep the backlog short.
struct WovenCell {
  int forward_chunk = 0, backward_chunk = 0;
  CellItems cell;
  PerQueue<std::vector<WeaveLine>> words;  // of each item, a line of one word
  std::vector<CellWord> present;           // the words in the present order of the unit
  Merge given;                             // that order; empty if it is no merge of the queues
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

}  // namespace stretto
