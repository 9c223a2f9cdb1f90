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

absl::StatusOr<ArenaBytes> FullestArenas(const EngineSpec& spec, Rank rank, Extras extras) {
  ASSIGN_OR_RETURN(ArenaBytes most, PlanArenas(spec, rank));
  if (extras.evaluated) {
    ASSIGN_OR_RETURN(const ArenaBytes own, MakeRoomForEvaluation(spec, rank, &most));
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

absl::StatusOr<ArenaBytes> MakeRoomForEvaluation(const EngineSpec& spec, Rank rank,
                                                 ArenaBytes* step) {
  ASSIGN_OR_RETURN(ArenaBytes own, PlanArenas(spec, rank, Variant::kEvaluation));
  int64_t& activations = (*step)[ArenaClass::kActivation];
  activations = std::max(activations, own[ArenaClass::kActivation]);
  for (ArenaClass shared : {ArenaClass::kActivation, ArenaClass::kParameter}) own[shared] = 0;
  return own;
}

int64_t TotalBytes(const ArenaBytes& arenas) {
  return std::accumulate(arenas.begin(), arenas.end(), int64_t{0});
}

}  // namespace stretto::trainer
