// SPDX-License-Identifier: Apache-2.0
#pragma once
// The options of `stretto-bench pipeline`: the work, the ranks and the orders to compare.

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/bench/options/rank_flags.h"
#include "worker/engine/cost/profile.h"
#include "worker/engine/spec/spec.h"

namespace stretto::bench {

// Warm-ups from the times that this benchmark measures (worker/engine/schedule/pipeline/slack.h).
inline constexpr char kSlackOrder[] = "slack";

// How the layers of the model are spread over stages. What a rank has and computes depends on it.
struct Spread {
  int chunks = 1;  // of a stage
  bool folded = false;
  auto operator<=>(const Spread&) const = default;
};

struct OrderChoice {
  std::string name = {};   // as given: "1f1b+send"
  std::string order = {};  // of the table, or kSlackOrder
  WgradDelay delay = WgradDelay::kNone;
  Spread spread = {};
};

struct PipelineOptions {
  std::string help = {};   // if not empty, print it and do nothing else
  std::string model = {};  // its name, for the report
  EngineSpec spec = {};    // of the default order
  std::vector<OrderChoice> orders = {};
  // Of the first order of each spread. Others of that spread have the same operations.
  std::map<Spread, EngineSpec> specs = {};
  RankFlags ranks = {};
  std::optional<CostProfile> costs = {};  // steps are predicted from them
};

// Returns the specs in an order in which few have groups that those before them lack.
std::vector<EngineSpec> MostChunksFirst(const std::map<Spread, EngineSpec>& specs);

// Errors: InvalidArgument, in one line: the flag, found and expected.
absl::StatusOr<PipelineOptions> ParsePipelineOptions(const std::vector<std::string>& arguments);

}  // namespace stretto::bench
