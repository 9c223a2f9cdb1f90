// SPDX-License-Identifier: Apache-2.0
#pragma once
// The weave plan of a cell that is the shortest at given costs. Pure and deterministic: all ranks
// that search with the same costs find the same plan, but a job should search once and send it.

#include "absl/status/statusor.h"
#include "proto/spec/strands/weave_plan.h"
#include "worker/engine/cost/model.h"
#include "worker/engine/program/program.h"

namespace stretto {

// Which orders a search considers. Events: every order of words, run as helix runs it. Blocks: the
// published form, in which both strands wait for each other behind each block (Wang et al. 2024);
// helix runs its plan without these barriers, which is no slower.
enum class WeaveForm : uint8_t { kEvents, kBlocks };

// Times are of the cell alone, from the first operation to the end of the last. Those of events and
// of the given order are simulated with contention, on a link that saves up no burst.
struct FoundWeave {
  WeavePlan plan;
  double seconds = 0;        // of blocks: with barriers and without contention
  bool exact = false;        // no plan of this form is shorter
  double lower_bound = 0;    // that no plan can beat, with contention or without
  WeavePlan given_plan;      // of the order that the step has
  double given_seconds = 0;  // of that order
  bool given_fits = false;   // that order keeps the pace and the backlog of found plans
};

// Searches the order of the cell of a woven step, which has its lanes, for example that of
// DraftPlan. The plan keeps `pace`. It is not slower than the order that the step has if that fits.
// With contention, the search of events finds one order at the times of operations alone and one at
// times that are longer by what operations lose at most. Of these and the given one, it returns the
// one whose time is the least above the shortest of them, also where costs are off by kDoubt
// (judge.h). The search of blocks ignores contention and doubt. Errors: InvalidArgument, if the
// step has no cell of two passes of one stage. Folded stages have other cells.
absl::StatusOr<FoundWeave> FindWeave(const StepProgram& step, const CostModel& cost, int pace,
                                     WeaveForm form = WeaveForm::kEvents);

}  // namespace stretto
