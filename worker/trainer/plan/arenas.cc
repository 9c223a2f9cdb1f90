#include "worker/trainer/plan/arenas.h"

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

absl::StatusOr<ArenaBytes> FullestArenas(const EngineSpec& spec, int rank, bool profiled) {
  std::vector<std::pair<EngineSpec, Variant>> programs = {{spec, Variant::kSchedule}};
  if (profiled) {
    programs.emplace_back(spec, Variant::kSerialOracle);
    programs.emplace_back(Unsliced(spec), Variant::kComputeOnly);
  }
  ArenaBytes most = {};
  for (const auto& [program, variant] : programs) {
    ASSIGN_OR_RETURN(const ArenaBytes arenas, PlanArenas(program, rank, variant));
    if (TotalBytes(arenas) > TotalBytes(most)) most = arenas;
  }
  return most;
}

int64_t TotalBytes(const ArenaBytes& arenas) {
  return std::accumulate(arenas.begin(), arenas.end(), int64_t{0});
}

}  // namespace stretto::trainer
