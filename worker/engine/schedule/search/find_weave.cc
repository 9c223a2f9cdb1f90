// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/schedule/search/find_weave.h"

#include <utility>

#include "proto/base/status_macros.h"
#include "worker/engine/schedule/search/block_plan.h"
#include "worker/engine/schedule/search/event_plan.h"
#include "worker/engine/schedule/search/woven_cell.h"

namespace stretto {

absl::StatusOr<FoundWeave> FindWeave(const StepProgram& step, const CostModel& cost, int pace,
                                     WeaveForm form) {
  ASSIGN_OR_RETURN(const WovenCell woven, WovenCellOf(step, cost, pace));
  CellPlan found;
  if (form == WeaveForm::kEvents) {
    ASSIGN_OR_RETURN(found, EventPlan(woven.cell));
  } else {
    ASSIGN_OR_RETURN(found, BlockPlan(woven.cell));
  }
  const double given = CellPlayer(woven.cell).SecondsOf(woven.given);
  // Of a large cell, the search looks at a part of the orders only.
  if (form == WeaveForm::kEvents && given >= 0 && given < found.seconds) {
    found.order = woven.given;
    found.seconds = given;
  }
  return FoundWeave{.plan = PlanOfMerge(woven, pace, found.order),
                    .seconds = found.seconds,
                    .lower_bound = LowerBound(woven.cell),
                    .given_seconds = given,
                    .exact = found.exact};
}

}  // namespace stretto
