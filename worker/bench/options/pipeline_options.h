// SPDX-License-Identifier: Apache-2.0
#pragma once
// The options of `stretto-bench pipeline`: the work, the ranks and the orders to compare.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/bench/options/rank_flags.h"
#include "worker/engine/cost/profile.h"
#include "worker/engine/spec/spec.h"

namespace stretto::bench {

// Warm-ups from the times that this benchmark measures (worker/engine/schedule/pipeline/slack.h).
inline constexpr char kSlackOrder[] = "slack";

struct OrderChoice {
  std::string name = {};   // as given: "1f1b+send"
  std::string order = {};  // of the table, or kSlackOrder
  WgradDelay delay = WgradDelay::kNone;
  int chunks = 1;  // of a stage
};

struct PipelineOptions {
  std::string help = {};   // if not empty, print it and do nothing else
  std::string model = {};  // its name, for the report
  EngineSpec spec = {};    // of the default order
  std::vector<OrderChoice> orders = {};
  RankFlags ranks = {};
  std::optional<CostProfile> costs = {};  // steps are predicted from them

  // The numbers of chunks that the orders have. What a rank holds and computes depends on it.
  std::set<int> ChunksOfOrders() const;
  // Returns the spec of an order with one of these numbers.
  EngineSpec WithChunks(int chunks) const;
};

// Errors: InvalidArgument, in one line: the flag, found and expected.
absl::StatusOr<PipelineOptions> ParsePipelineOptions(const std::vector<std::string>& arguments);

}  // namespace stretto::bench
