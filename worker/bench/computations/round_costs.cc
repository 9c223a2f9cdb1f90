// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/computations/round_costs.h"

#include <algorithm>
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

ComputationRound RoundOf(const std::vector<std::vector<double>>& ranks,
                         absl::Span<const double> calls) {
  const auto step_seconds = [&](const std::vector<double>& seconds) {
    return std::inner_product(seconds.begin(), seconds.end(), calls.begin(), 0.0);
  };
  const auto slower = [&](const auto& a, const auto& b) {
    return step_seconds(a) < step_seconds(b);
  };
  ComputationRound round{.seconds = *std::max_element(ranks.begin(), ranks.end(), slower)};
  for (size_t i = 0; i < round.seconds.size(); ++i) {
    if (round.seconds[i] > 0) continue;
    for (const std::vector<double>& rank : ranks) {
      round.seconds[i] = std::max(round.seconds[i], rank[i]);
    }
  }
  round.step_seconds = step_seconds(round.seconds);
  return round;
}

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
