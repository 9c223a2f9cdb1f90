// SPDX-License-Identifier: Apache-2.0

// Finds orders for the cells of one stage, writes each as a plan, and takes the one that the judge
// prefers over all stages.

#include "worker/engine/schedule/search/find_weave.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "proto/base/status_macros.h"
#include "worker/engine/schedule/search/block_plan.h"
#include "worker/engine/schedule/search/cell_plan.h"
#include "worker/engine/schedule/search/event_plan.h"
#include "worker/engine/schedule/search/judge.h"
#include "worker/engine/schedule/search/woven_cell.h"

namespace stretto {

namespace {

bool SameTimes(const CellItems& a, const CellItems& b) {
  return std::equal(a.ops.begin(), a.ops.end(), b.ops.begin(),
                    [](const CellOp& x, const CellOp& y) { return x.seconds == y.seconds; });
}

// Returns the orders to choose from, the simplest first: the given one if it fits, that one with
// the embedding at its best place if that is worth it, and the shortest without and with
// contention. Together they take as much time as one search.
absl::StatusOr<std::vector<CellPlan>> Candidates(const WovenCell& woven, const CostModel& cost) {
  const CellItems slow = SlowedDown(woven, cost);
  const bool contends = !SameTimes(slow, woven.cell);
  const size_t fronts = contends ? kMostFronts / 2 : kMostFronts;
  ASSIGN_OR_RETURN(CellPlan alone, EventPlan(woven.cell, fronts, woven.given));
  alone.exact = alone.exact && !contends;
  std::vector<CellPlan> plans;
  const CellPlayer player(woven.cell);
  const double given = player.SecondsOf(woven.given);
  if (given >= 0 && alone.order != woven.given) {
    plans.push_back({.order = woven.given, .seconds = given, .exact = false});
    Merge placed = WithNextPlaced(woven.cell, woven.given);
    const double seconds = player.SecondsOf(placed);
    if (seconds < given * (1 - kWorth))
      plans.push_back({.order = std::move(placed), .seconds = seconds, .exact = false});
  }
  plans.push_back(std::move(alone));
  if (!contends) return plans;
  ASSIGN_OR_RETURN(plans.emplace_back(), EventPlan(slow, fronts, woven.given));
  plans.back().exact = false;
  return plans;
}

// Sets the plan, its time and whether it is exact.
absl::Status FindEvents(const WovenCell& woven, const std::vector<PlayedCell>& stages,
                        const CostModel& cost, int pace, FoundWeave* found) {
  ASSIGN_OR_RETURN(const std::vector<CellPlan> plans, Candidates(woven, cost));
  std::vector<JudgedTimes> times;
  for (const CellPlan& plan : plans) {
    ASSIGN_OR_RETURN(times.emplace_back(),
                     Judge(stages, cost, PlanOfMerge(woven, pace, plan.order)));
  }
  const double limit =
      found->given_fits ? found->given_seconds : std::numeric_limits<double>::infinity();
  const size_t least = LeastRegret(times, limit);
  found->plan = PlanOfMerge(woven, pace, plans[least].order);
  found->seconds = times[least].front();
  found->exact = plans[least].exact;
  return absl::OkStatus();
}

// The unit of the cell with this chunk of forward.
absl::StatusOr<WovenUnit> UnitOf(const StepProgram& step, int forward_chunk) {
  for (const WovenUnit& unit : WovenUnits(step)) {
    if (unit.forward_chunk == forward_chunk) return unit;
  }
  return absl::InvalidArgumentError(
      "found no cell of two passes, expected the step of a schedule that weaves");
}

// The order of a step does not show barriers, which are waits of its operations.
bool HasBarriers(const WeavePlan& plan) {
  return std::any_of(plan.lines.begin(), plan.lines.end(),
                     [](const WeaveLine& line) { return line.is_barrier(); });
}

// `given` is the plan of the cell in the text, nullptr if that has none.
absl::StatusOr<FoundWeave> FindWeave(absl::Span<const StepProgram* const> steps, int forward_chunk,
                                     const CostModel& cost, const WeavePlan* given,
                                     WeaveForm form) {
  const int given_pace = given != nullptr ? given->pace : WeavePlan().pace;
  const int pace = std::min(given_pace, kMostFoundPace);
  std::vector<PlayedCell> stages;
  for (const StepProgram* step : steps) {
    ASSIGN_OR_RETURN(const WovenUnit unit, UnitOf(*step, forward_chunk));
    stages.push_back(PlayedCellOf(*step, unit.unit, cost));
  }
  ASSIGN_OR_RETURN(const WovenUnit first, UnitOf(*steps.front(), forward_chunk));
  ASSIGN_OR_RETURN(const WovenCell woven, WovenCellOf(*steps.front(), first, cost, pace));
  FoundWeave found;
  found.lower_bound = LowerBound(woven.cell);
  found.given_plan = PresentPlan(woven, given_pace);
  ASSIGN_OR_RETURN(const JudgedTimes judged, Judge(stages, cost, found.given_plan));
  found.given_seconds = judged.front();
  found.given_fits = CellPlayer(woven.cell).SecondsOf(woven.given) >= 0;
  if (form == WeaveForm::kEvents) {
    RETURN_IF_ERROR(FindEvents(woven, stages, cost, pace, &found));
  } else {
    ASSIGN_OR_RETURN(const CellPlan blocks, BlockPlan(woven.cell));
    found.plan = PlanOfMerge(woven, pace, blocks.order, blocks.barriers);
    found.seconds = blocks.seconds;
    found.exact = blocks.exact;
  }
  if (given != nullptr && HasBarriers(*given)) {
    found.given_plan = *given;
    ASSIGN_OR_RETURN(const JudgedTimes with_barriers, Judge(stages, cost, *given));
    found.given_seconds = with_barriers.front();
  }
  return found;
}

}  // namespace

absl::StatusOr<std::vector<FoundWeave>> FindWeaves(absl::Span<const StepProgram* const> stages,
                                                   const CostModel& cost, absl::string_view given,
                                                   WeaveForm form) {
  std::vector<WeavePlan> plans;
  if (!given.empty()) {
    ASSIGN_OR_RETURN(plans, ParseWeavePlans(given));
  }
  const std::vector<WovenUnit> units = WovenUnits(*stages.front());
  const int cells = units.empty() ? 1 : units.back().forward_chunk + 1;
  std::vector<FoundWeave> found;
  for (int chunk = 0; chunk < cells; ++chunk) {
    const auto plan = std::find_if(plans.begin(), plans.end(),
                                   [&](const WeavePlan& of) { return of.forward_chunk == chunk; });
    const WeavePlan* of_chunk = plan != plans.end() ? &*plan : nullptr;
    ASSIGN_OR_RETURN(found.emplace_back(), FindWeave(stages, chunk, cost, of_chunk, form));
  }
  return found;
}

std::string PrintWeaves(const std::vector<FoundWeave>& cells, WeavePlan FoundWeave::*plan) {
  std::string text;
  for (const FoundWeave& cell : cells) text += PrintWeavePlan(cell.*plan);
  return text;
}

}  // namespace stretto
