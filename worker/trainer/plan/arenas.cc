// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/plan/arenas.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "proto/base/status_macros.h"
#include "worker/engine/schedule/plan.h"

namespace stretto::trainer {

EngineSpec Unsliced(EngineSpec spec) {
  spec.schedule = {.name = "megatron_sync", .slices = {spec.micro_batch_size}};
  return spec;
}

EngineSpec EvaluationOf(EngineSpec spec, int64_t batches) {
  // Enough that a pipeline is idle for at most a quarter of the time, few enough that a request to
  // stop, which is heard between runs, does not wait long.
  const int64_t most = int64_t{4} * spec.pp_size;
  const int64_t turns = std::max<int64_t>(1, (batches + spec.dp_size - 1) / spec.dp_size);
  const int64_t runs = (turns + most - 1) / most;
  spec.micro_batches = static_cast<int>((turns + runs - 1) / runs);
  return spec;
}

absl::StatusOr<ArenaBytes> FullestArenas(const EngineSpec& spec, Rank rank, Extras extras) {
  ASSIGN_OR_RETURN(ArenaBytes most, PlanArenas(spec, rank));
  if (extras.evaluated_batches > 0) {
    ASSIGN_OR_RETURN(const ArenaBytes own,
                     MakeRoomForEvaluation(spec, extras.evaluated_batches, rank, &most));
    for (size_t i = 0; i < most.size(); ++i) most[i] += own[i];
  }
  std::vector<std::pair<EngineSpec, Variant>> programs;
  if (extras.profiled) {
    programs.emplace_back(spec, Variant::kSerialOracle);
    programs.emplace_back(Unsliced(spec), Variant::kComputeOnly);
  }
  for (const auto& [program, variant] : programs) {
    ASSIGN_OR_RETURN(const ArenaBytes arenas, PlanArenas(program, rank, variant));
    if (TotalBytes(arenas) > TotalBytes(most)) most = arenas;
  }
  return most;
}

absl::StatusOr<ArenaBytes> MakeRoomForEvaluation(const EngineSpec& spec, int64_t batches, Rank rank,
                                                 ArenaBytes* step) {
  ASSIGN_OR_RETURN(ArenaBytes own,
                   PlanArenas(EvaluationOf(spec, batches), rank, Variant::kEvaluation));
  int64_t& activations = (*step)[ArenaClass::kActivation];
  activations = std::max(activations, own[ArenaClass::kActivation]);
  for (ArenaClass shared : {ArenaClass::kActivation, ArenaClass::kParameter}) own[shared] = 0;
  return own;
}

int64_t TotalBytes(const ArenaBytes& arenas) {
  return std::accumulate(arenas.begin(), arenas.end(), int64_t{0});
}

}  // namespace stretto::trainer
