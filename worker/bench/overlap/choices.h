// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `stretto-bench overlap` tries: the schedules, each with every choice of its parameters.

#include <string>
#include <vector>

#include "worker/bench/options/overlap_options.h"

namespace stretto::bench {

std::vector<std::string> SchedulesOf(const OverlapOptions& options);

// Returns every combination of slices, splits, deferrals and sequence parallelism, also those that
// the schedule does not accept.
std::vector<EngineSpec> ChoicesOf(const OverlapOptions& options, const std::string& schedule);

}  // namespace stretto::bench
