// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/overlap/interleaved_costs.h"

#include "proto/base/status_macros.h"

namespace stretto::bench {

void InterleavedCosts::Add(const Program& program) {
  AddComputations(program, &mine_);
  std::erase_if(mine_, [](const auto& each) { return IsOfOptimizer(each.second); });
}

absl::StatusOr<TimedProgram> InterleavedCosts::Start(int repeats, Rig& rig) {
  ASSIGN_OR_RETURN(all_, TimedComputations::OfAllRanks(mine_, *rig.communicator()));
  const auto time = [this, repeats, &rig]() -> absl::Status {
    for (int i = 0; i < repeats; ++i) {
      ASSIGN_OR_RETURN(rounds_.emplace_back(), all_->Measure(*rig.communicator(), rig.backend()));
    }
    return absl::OkStatus();
  };
  return Timed<ComputationRound>("computations one by one", &rounds_, time,
                                 [](const ComputationRound& round) { return round.step_seconds; });
}

std::optional<CostProfile> InterleavedCosts::In(const CostProfile& calibrated) const {
  if (rounds_.empty()) return std::nullopt;
  CostProfile costs = calibrated;
  for (const auto& [key, cost] : all_->CostsOf(rounds_)) costs.operations[key] = cost;
  return costs;
}

}  // namespace stretto::bench
