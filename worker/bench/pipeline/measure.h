// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures the orders of a pipeline: one process per rank, over real connections.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/bench/common/rounds.h"
#include "worker/bench/options/pipeline_options.h"
#include "worker/bench/pipeline/parts.h"

namespace stretto::bench {

struct OrderResult {
  OrderChoice order;
  std::string schedule;                  // that its stages run
  std::vector<int> warm_ups;             // by stage
  std::vector<double> steps;             // of all rounds, in seconds, of the slowest rank
  double ideal = 0;                      // by the measured operations, if transfers took no time
  std::optional<double> simulated = {};  // a step by the costs that were given
  int64_t activation_bytes = 0;          // that the first stage plans

  double median() const;
};

struct PipelineResult {
  PipelineParts parts;
  std::vector<OrderResult> orders;
  Rounds rounds;
};

// Every rank calls this together; all get the same result. `say` gets lines for the user. Errors:
// those of RankDevice and of executors; Internal, an order differs from its serial oracle.
absl::StatusOr<PipelineResult> MeasurePipeline(const PipelineOptions& options, const Say& say);

}  // namespace stretto::bench
