// SPDX-License-Identifier: Apache-2.0
#pragma once
// The options of `stretto-bench reshard`: the ranks, the link, and the cases and rules to compare.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/bench/options/rank_flags.h"
#include "worker/engine/reshard/reshard.h"

namespace stretto::bench {

struct NamedRules {
  std::string mode, senders, order;  // as the flags have them
  ReshardRules rules;
};

struct ReshardOptions {
  std::string help = {};  // if not empty, print it and do nothing else
  std::vector<std::string> cases = {};
  std::vector<NamedRules> rules = {};  // every combination of the flags
  RankFlags ranks = {.repeats = 3};
  double gbps = 0;         // of a node's interface, each direction, frames included
  double latency_us = 50;  // of a message, for the plan
  int mebibytes = 8;       // of the tensor
};

// Errors: InvalidArgument, in one line: the flag, found and expected.
absl::StatusOr<ReshardOptions> ParseReshardOptions(const std::vector<std::string>& arguments);

}  // namespace stretto::bench
