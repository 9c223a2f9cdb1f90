// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/sim_plans.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace stretto {

const char* GivenPlanName(const SimOptions& options) {
  return options.spec.schedule.weave.empty() ? "default" : "given";
}

const char* PlayedPlanName(const SimOptions& options) {
  return options.find_plan ? kFoundPlanName : GivenPlanName(options);
}

std::string CellName(const FoundWeave& cell) {
  return absl::StrCat("f", cell.plan.forward_chunk, "|b", cell.plan.backward_chunk);
}

std::string PlayedPlans(const SimOptions& options, const std::vector<FoundWeave>& cells) {
  return PrintWeaves(cells, options.find_plan ? &FoundWeave::plan : &FoundWeave::given_plan);
}

nlohmann::ordered_json CellJson(const SimOptions& options, const FoundWeave& cell) {
  return {{absl::StrCat(GivenPlanName(options), "_seconds"), cell.given_seconds},
          {"found_seconds", cell.seconds},
          {"lower_bound_seconds", cell.lower_bound},
          {"exact", cell.exact},
          {"found_plan", PrintWeavePlan(cell.plan)}};
}

}  // namespace stretto
