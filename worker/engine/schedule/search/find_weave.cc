// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/schedule/search/find_weave.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "proto/base/status_macros.h"
#include "worker/engine/schedule/search/block_plan.h"
#include "worker/engine/schedule/search/event_plan.h"
#include "worker/engine/schedule/search/judge.h"
#include "worker/engine/schedule/search/woven_cell.h"

namespace stretto {

namespace {

// The shares of their time for which operations are searched as slowed down by contention. With the
// given order that makes eight orders.
constexpr int kShares = 7;

// Of the given order and those that are the shortest at each of the shares, the one that takes the
// shortest time with contention. Together they take as much time as one search.
absl::StatusOr<CellPlan> LeastUnderContention(const WovenCell& woven, const CostModel& cost) {
  std::vector<Merge> orders;
  if (CellPlayer(woven.cell).SecondsOf(woven.given) >= 0) orders.push_back(woven.given);
  for (int i = 0; i < kShares; ++i) {
    const CellItems slow = SlowedDown(woven, cost, static_cast<double>(i) / (kShares - 1));
    ASSIGN_OR_RETURN(CellPlan plan, EventPlan(slow, kMostFronts / kShares, woven.given));
    if (std::find(orders.begin(), orders.end(), plan.order) == orders.end())
      orders.push_back(std::move(plan.order));
  }
  CellPlan least = {.order = {}, .seconds = 0, .exact = false};
  double judged = std::numeric_limits<double>::infinity();
  for (Merge& order : orders) {
    ASSIGN_OR_RETURN(const double seconds, JudgedSeconds(woven, cost, order));
    if (seconds >= judged) continue;
    judged = seconds;
    least.order = std::move(order);
  }
  least.seconds = CellPlayer(woven.cell).SecondsOf(least.order);
  return least;
}

absl::StatusOr<CellPlan> PlanOf(const WovenCell& woven, const CostModel& cost, WeaveForm form) {
  if (form == WeaveForm::kBlocks) return BlockPlan(woven.cell);
  if (HasContention(cost)) return LeastUnderContention(woven, cost);
  return EventPlan(woven.cell, kMostFronts, woven.given);
}

}  // namespace

absl::StatusOr<FoundWeave> FindWeave(const StepProgram& step, const CostModel& cost, int pace,
                                     WeaveForm form) {
  ASSIGN_OR_RETURN(const WovenCell woven, WovenCellOf(step, cost, pace));
  ASSIGN_OR_RETURN(const CellPlan found, PlanOf(woven, cost, form));
  return FoundWeave{.plan = PlanOfMerge(woven, pace, found.order),
                    .seconds = found.seconds,
                    .lower_bound = LowerBound(woven.cell),
                    .given_plan = PlanOfMerge(woven, pace, woven.given),
                    .given_seconds = CellPlayer(woven.cell).SecondsOf(woven.given),
                    .exact = found.exact};
}

}  // namespace stretto
