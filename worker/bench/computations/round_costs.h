// SPDX-License-Identifier: Apache-2.0
#pragma once
// Costs of computations from rounds of one repeat of each, as a step repeats its operations.

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "worker/engine/cost/profile.h"

namespace stretto::bench {

// One repeat of each computation.
struct ComputationRound {
  std::vector<double> seconds;  // of one call, by computation
  double step_seconds = 0;      // of all calls in a step
};

// Returns a round from the seconds of one call on each rank, by rank and computation, 0 of what a
// rank lacks: those of the rank whose computations take longest in a step, and of what it lacks,
// the longest of the others. `calls` are those of a step.
ComputationRound RoundOf(const std::vector<std::vector<double>>& ranks,
                         absl::Span<const double> calls);

// A round is quiet as a run of a program is (worker/bench/common/disturbance.h): by the time that
// its computations take together in a step. Returns how many are.
size_t CountQuiet(absl::Span<const ComputationRound> rounds);

// Returns the cost of a computation: the mean of the quiet rounds, and not the median, because the
// time of a step is a sum, of its slow operations too. Its spread is 0 if the quiet rounds differ
// by more than kMostSpread (proto/base/spread.h). There must be a round.
CostProfile::Number CostOf(absl::Span<const ComputationRound> rounds, size_t computation);

}  // namespace stretto::bench
