// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/calibrate/quiet_rounds.h"

#include "absl/strings/str_format.h"
#include "proto/base/spread.h"
#include "proto/base/status_macros.h"
#include "worker/bench/calibrate/settle.h"

namespace stretto::bench {
namespace {

constexpr size_t kMostCostRounds = 3 * kSettledRounds;

}  // namespace

absl::StatusOr<std::vector<ComputationRound>> RepeatRounds(
    absl::FunctionRef<absl::StatusOr<ComputationRound>()> measure) {
  std::vector<ComputationRound> rounds;
  while (CountQuiet(rounds) < kSettledRounds) {
    if (rounds.size() == kMostCostRounds) {
      return UnsettledError(
          absl::StrFormat("computations: found %d of %d rounds at most %.0f %% longer than the "
                          "fastest, expected %d",
                          CountQuiet(rounds), rounds.size(), 100 * kMostSpread, kSettledRounds));
    }
    ASSIGN_OR_RETURN(rounds.emplace_back(), measure());
  }
  return rounds;
}

}  // namespace stretto::bench
