// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `stretto-bench overlap` tries: the schedules, each with every choice of its parameters.

#include <string>
#include <vector>

#include "worker/bench/options/overlap_options.h"

namespace stretto::bench {

std::vector<std::string> SchedulesOf(const OverlapOptions& options);

struct Choice {
  EngineSpec spec;
  std::string plan = {};       // of plans.h; empty: nothing is woven
  double plan_over_bound = 0;  // what SetPlan fills in; 0: not known
};

// Returns every combination of slices, splits, deferrals, sequence parallelism and plans, also
// those that the schedule does not accept.
std::vector<Choice> ChoicesOf(const OverlapOptions& options, const std::string& schedule);

// "domino_row, slices 2, splits 1"
std::string Describe(const Choice& choice);

}  // namespace stretto::bench
