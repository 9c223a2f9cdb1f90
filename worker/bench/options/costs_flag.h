// SPDX-License-Identifier: Apache-2.0
#pragma once
// The flag --costs of commands that predict what they measure.

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "worker/engine/cost/profile.h"

namespace CLI {
class App;
}  // namespace CLI

namespace stretto::bench {

void AddCostsFlag(CLI::App& app, std::string& file);

// Returns the costs in a file that `stretto-bench calibrate` wrote for two ranks or more; nothing
// for an empty name. Errors: InvalidArgument naming the flag, for a file that cannot be read or is
// refused (ParseCostProfile), and for one without a link.
absl::StatusOr<std::optional<CostProfile>> ReadCosts(const std::string& file);

}  // namespace stretto::bench
