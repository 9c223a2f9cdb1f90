// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures the costs of a machine and its link with programs of one operation each.

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/bench/options/rank_flags.h"
#include "worker/engine/cost/profile.h"
#include "worker/engine/spec/spec.h"

namespace stretto::bench {

// Measures what the programs of `specs`, at least one, consist of. Every rank calls it together and
// gets the same costs, in which a time is the slowest rank's. `say` gets lines for the user.
// Errors: those of MeasuredJob and of executors; UnsettledError (settle.h).
absl::StatusOr<CostProfile> MeasureCosts(const std::vector<EngineSpec>& specs,
                                         const RankFlags& ranks,
                                         const std::function<void(const std::string&)>& say);

}  // namespace stretto::bench
