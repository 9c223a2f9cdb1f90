// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/computations/round_costs.h"

#include <numeric>

#include "proto/base/spread.h"
#include "worker/bench/common/disturbance.h"

namespace stretto::bench {
namespace {

std::vector<size_t> QuietRoundsOf(absl::Span<const ComputationRound> rounds) {
  std::vector<double> totals;
  for (const ComputationRound& round : rounds) totals.push_back(round.step_seconds);
  return QuietOf(totals);
}

}  // namespace

size_t CountQuiet(absl::Span<const ComputationRound> rounds) {
  return rounds.empty() ? 0 : QuietRoundsOf(rounds).size();
}

CostProfile::Number CostOf(absl::Span<const ComputationRound> rounds, size_t computation) {
  std::vector<double> quiet;
  for (const size_t round : QuietRoundsOf(rounds)) {
    quiet.push_back(rounds[round].seconds[computation]);
  }
  const double spread = SpreadOf(quiet);
  return {
      .value = std::accumulate(quiet.begin(), quiet.end(), 0.0) / static_cast<double>(quiet.size()),
      .spread = spread <= kMostSpread ? spread : 0};
}

}  // namespace stretto::bench
