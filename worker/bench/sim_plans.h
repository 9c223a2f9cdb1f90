// SPDX-License-Identifier: Apache-2.0
#pragma once
// The weave plans of cells in the reports of `stretto-bench sim`.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "worker/bench/options/sim_options.h"
#include "worker/engine/schedule/search/find_weave.h"

namespace stretto {

inline constexpr char kFoundPlanName[] = "found";
// What the plan of the spec is called: "given", or "default" if it has none.
const char* GivenPlanName(const SimOptions& options);
// That of the step.
const char* PlayedPlanName(const SimOptions& options);

// "f0|b1", as in a plan.
std::string CellName(const FoundWeave& cell);

// Returns the text of the played plans.
std::string PlayedPlans(const SimOptions& options, const std::vector<FoundWeave>& cells);

// Returns times and the found plan of a cell.
nlohmann::ordered_json CellJson(const SimOptions& options, const FoundWeave& cell);

}  // namespace stretto
