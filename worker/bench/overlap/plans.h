// SPDX-License-Identifier: Apache-2.0
#pragma once
// Weave plans by the names of `--plans`: the default plan, the one that is found for the costs of a
// calibration, and the one that is found with a barrier behind each block, as published.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/bench/options/overlap_options.h"
#include "worker/bench/overlap/choices.h"

namespace stretto::bench {

inline constexpr char kDefaultPlan[] = "default", kFoundPlan[] = "found", kBlocksPlan[] = "blocks";

// Returns the names to try: those of `--plans`, or else the default and, with costs, the found one.
std::vector<std::string> PlansOf(const OverlapOptions& options);

// Gives the spec of a choice the plan that it names; nothing if it names none. With costs, also
// notes the time of the cell in that plan over the lower bound of all plans. Deterministic, so that
// all ranks, which have the same costs, have the same plan. Errors: InvalidArgument, for a plan
// that must be found without costs; those of FindWeaves.
absl::Status SetPlan(const std::optional<CostProfile>& costs, Choice* choice);

}  // namespace stretto::bench
