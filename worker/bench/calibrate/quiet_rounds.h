// SPDX-License-Identifier: Apache-2.0
#pragma once
// Repeats rounds of computations until enough of them are quiet.

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "worker/bench/computations/round_costs.h"

namespace stretto::bench {

// Calls `measure` until kSettledRounds of the rounds are quiet, at most three times as often.
// Returns all rounds. Errors: those of `measure`; UnsettledError if fewer are quiet (settle.h).
absl::StatusOr<std::vector<ComputationRound>> RepeatRounds(
    absl::FunctionRef<absl::StatusOr<ComputationRound>()> measure);

}  // namespace stretto::bench
