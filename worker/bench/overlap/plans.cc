// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/overlap/plans.h"

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/engine/schedule/plan.h"
#include "worker/engine/schedule/search/find_weave.h"

namespace stretto::bench {

std::vector<std::string> PlansOf(const OverlapOptions& options) {
  if (!options.plans.empty()) return options.plans;
  return options.costs ? std::vector<std::string>{kDefaultPlan, kFoundPlan}
                       : std::vector<std::string>{kDefaultPlan};
}

absl::Status SetPlan(const std::optional<CostProfile>& costs, Choice* choice) {
  const std::string& plan = choice->plan;
  const bool given = plan == kDefaultPlan;
  if (plan.empty() || (given && !costs)) return absl::OkStatus();
  if (!costs) {
    return absl::InvalidArgumentError(
        absl::StrCat("--plans: found '", plan, "' without --costs, expected ", kDefaultPlan));
  }
  const WeaveForm form = plan == kBlocksPlan ? WeaveForm::kBlocks : WeaveForm::kEvents;
  ASSIGN_OR_RETURN(const RankPlan draft, DraftPlan(choice->spec, 0));
  ASSIGN_OR_RETURN(const auto found, FindWeaves({&draft.step}, ModelOf(*costs), "", form));
  const FoundWeave& cell = found.front();  // a step without stages has one
  choice->plan_over_bound = (given ? cell.given_seconds : cell.seconds) / cell.lower_bound;
  if (!given) choice->spec.schedule.weave = PrintWeaves(found);
  return absl::OkStatus();
}

}  // namespace stretto::bench
