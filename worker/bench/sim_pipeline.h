// SPDX-License-Identifier: Apache-2.0
#pragma once
// The figures of `stretto-bench sim` for a model in several stages: each order of a pipeline
// against the bound of its own bubble, and against the order that blocks.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/bench/known_costs.h"
#include "worker/engine/cost/model.h"
#include "worker/engine/schedule/search/find_weave.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

// Seconds; means over all ranks of the job add up to the step:
//   compute + exposed_tp + exposed_dp + bubble + exposed_pp = step
struct PipelineFigures {
  std::string order;
  int chunks = 1;  // of a stage
  double step = 0;
  // The same order with a network that takes no time: computation and bubble only. Measured times
  // of collectives (CostModel::table) stay as they are.
  double ideal = 0;
  double compute = 0;     // slowed down by contention
  double exposed_tp = 0;  // communication without computation, of an axis
  double exposed_dp = 0;
  double bubble = 0;       // a stage waits for others in the ideal step
  double exposed_pp = 0;   // and for how much longer in this one
  int64_t sent_bytes = 0;  // to other stages, by the rank that sends most
  int64_t first_activation_bytes = 0, last_activation_bytes = 0;  // of a rank of that stage
  double blocking_step = 0;  // of the order that blocks, at the same stages
  // Of folded stages. The plans of the spec are the given ones, default plans where it has none.
  std::vector<FoundWeave> cells = {};
  KnownCosts known = {};  // of the operations of a rank of each stage
};

// Simulates one rank of each stage; the others are its copies. Shards of a stage differ only in
// sums of a few numbers, so the first one stands for all. `specs`, at least one, differ in the
// order and in chunks of a stage alone, and a folded one in the schedule. `plain` is of one chunk;
// with as many stages, its order that blocks is the baseline. With `find_plan`, the cells of folded
// stages are in the order that is the shortest at these costs, otherwise in that of the spec.
// Errors: those of DraftPlan, of FindWeaves, of ExpectKnown and of Simulate.
absl::StatusOr<std::vector<PipelineFigures>> RunPipelines(EngineSpec plain,
                                                          const std::vector<EngineSpec>& specs,
                                                          const CostModel& cost,
                                                          bool find_plan = false);

}  // namespace stretto
