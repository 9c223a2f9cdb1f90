// SPDX-License-Identifier: Apache-2.0
#pragma once
// The weave plans of cells in the reports of `stretto-bench sim`.

#include <iosfwd>
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

// "1.071", or "-" where there is nothing to compare with, because all costs are 0.
std::string RatioText(double seconds, double other_seconds);

// "f0|b1", as in a plan.
std::string CellName(const FoundWeave& cell);

// Writes the text of the played plans to `out`, and a line for each of them to `err`: the time of
// its cell, and that over the lower bound of all plans.
void PrintPlayedPlans(const SimOptions& options, const std::vector<FoundWeave>& cells,
                      std::ostream& out, std::ostream& err);

// Returns times and the found plan of a cell.
nlohmann::ordered_json CellJson(const SimOptions& options, const FoundWeave& cell);

}  // namespace stretto
