// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/sim_plans.h"

#include <nlohmann/json.hpp>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace stretto {

const char* GivenPlanName(const SimOptions& options) {
  return options.spec.schedule.weave.empty() ? "default" : "given";
}

const char* PlayedPlanName(const SimOptions& options) {
  return options.find_plan ? kFoundPlanName : GivenPlanName(options);
}

std::string RatioText(double seconds, double other_seconds) {
  return other_seconds > 0 ? absl::StrFormat("%.3f", seconds / other_seconds) : "-";
}

std::string CellName(const FoundWeave& cell) {
  return absl::StrCat("f", cell.plan.forward_chunk, "|b", cell.plan.backward_chunk);
}

void PrintPlayedPlans(const SimOptions& options, const std::vector<FoundWeave>& cells,
                      std::ostream& out, std::ostream& err) {
  out << PrintWeaves(cells, options.find_plan ? &FoundWeave::plan : &FoundWeave::given_plan);
  for (const FoundWeave& cell : cells) {
    const double seconds = options.find_plan ? cell.seconds : cell.given_seconds;
    err << absl::StrFormat("cell %s: %.3f ms, %s of the lower bound of all plans\n", CellName(cell),
                           seconds * 1e3, RatioText(seconds, cell.lower_bound));
  }
}

nlohmann::ordered_json CellJson(const SimOptions& options, const FoundWeave& cell) {
  return {{absl::StrCat(GivenPlanName(options), "_seconds"), cell.given_seconds},
          {"found_seconds", cell.seconds},
          {"lower_bound_seconds", cell.lower_bound},
          {"exact", cell.exact},
          {"found_plan", PrintWeavePlan(cell.plan)}};
}

}  // namespace stretto
