// SPDX-License-Identifier: Apache-2.0
#pragma once
// The computations of programs, each measured alone, on all ranks at once.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/bench/computations/round_costs.h"
#include "worker/bench/kernels/cases.h"
#include "worker/comm/communicator.h"
#include "worker/engine/exec/backend.h"
#include "worker/engine/program/program.h"

namespace stretto::bench {

// Bytes of the operands that a computation runs on in turn: about what a step touches before it
// comes back to an activation.
inline constexpr int64_t kWorkingSet = int64_t{16} << 20;

// Adds the computations of a program, by OperationKey. Of those that are in it already, only the
// number of uses of their weights changes, if it is larger here.
void AddComputations(const Program& program, std::map<std::string, KernelCase>* computations);

// The computations of all ranks, in the same order on each.
class TimedComputations {
 public:
  // `mine` are this rank's, by OperationKey; those of other ranks may be others. It must outlive
  // the result. Every rank calls it. Errors: those of the communicator.
  static absl::StatusOr<TimedComputations> OfAllRanks(const std::map<std::string, KernelCase>& mine,
                                                      Communicator& control);

  // Measures each once, on this rank's core; all ranks at once, as they compute in a step. Every
  // rank calls it. Errors: those of the executor, on all ranks, and of the communicator.
  absl::StatusOr<ComputationRound> Measure(Communicator& control, Backend& backend) const;

  // Returns what the rounds say that this rank's computations cost, by OperationKey.
  std::map<std::string, CostProfile::Number> CostsOf(
      const std::vector<ComputationRound>& rounds) const;

 private:
  std::vector<std::string> keys_;
  std::vector<double> calls_;             // in a step of the rank that has most of them
  std::vector<const KernelCase*> timed_;  // null if this rank lacks it
};

}  // namespace stretto::bench
