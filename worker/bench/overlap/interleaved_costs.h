// SPDX-License-Identifier: Apache-2.0
#pragma once
// Costs of computations that are measured between the programs of a comparison, in its rounds. A
// calibration has the machine's speed of some minutes before; these have that of the comparison,
// and contain nothing of the programs that it compares.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/bench/common/rounds.h"
#include "worker/bench/computations/computations.h"
#include "worker/bench/overlap/rig.h"
#include "worker/engine/cost/profile.h"

namespace stretto::bench {

class InterleavedCosts {
 public:
  // Adds the computations of forward and backward of a program of this rank.
  void Add(const Program& program);

  // Returns the program of a round, which measures each computation `repeats` times. This and
  // `rig`, which has other ranks, must outlive it. Every rank calls it, after the last Add. Errors:
  // those of the communicator.
  absl::StatusOr<TimedProgram> Start(int repeats, Rig& rig);

  // Returns the costs of a calibration with these in place of its own; none before the first round.
  std::optional<CostProfile> In(const CostProfile& calibrated) const;

 private:
  std::map<std::string, KernelCase> mine_;  // by OperationKey
  std::optional<TimedComputations> all_;
  std::vector<ComputationRound> rounds_;
};

}  // namespace stretto::bench
