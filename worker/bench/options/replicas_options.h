// SPDX-License-Identifier: Apache-2.0
#pragma once
// The options of `stretto-bench replicas`: the work and the ranks.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/bench/options/rank_flags.h"
#include "worker/engine/spec/spec.h"

namespace stretto::bench {

struct ReplicasOptions {
  std::string help = {};   // if not empty, print it and do nothing else
  std::string model = {};  // its name, for the report
  EngineSpec spec = {};    // without ZeRO
  RankFlags ranks = {};
};

// Errors: InvalidArgument, in one line: the flag, found and expected.
absl::StatusOr<ReplicasOptions> ParseReplicasOptions(const std::vector<std::string>& arguments);

}  // namespace stretto::bench
