// SPDX-License-Identifier: Apache-2.0

// Keeps all rounds, and judges them by their totals when asked.

#include "worker/bench/calibrate/round_costs.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"
#include "proto/base/spread.h"
#include "worker/bench/calibrate/settle.h"
#include "worker/bench/common/disturbance.h"

namespace stretto::bench {
namespace {

constexpr size_t kMostCostRounds = 3 * kSettledRounds;

}  // namespace

void RoundCosts::Add(std::vector<double> seconds) {
  totals_.push_back(std::inner_product(seconds.begin(), seconds.end(), calls_.begin(), 0.0));
  rounds_.push_back(std::move(seconds));
}

bool RoundCosts::settled() const {
  return !totals_.empty() && QuietOf(totals_).size() >= kSettledRounds;
}

bool RoundCosts::done() const { return settled() || totals_.size() >= kMostCostRounds; }

absl::Status RoundCosts::ExpectSettled() const {
  if (settled()) return absl::OkStatus();
  return UnsettledError(absl::StrFormat(
      "computations: found %d of %d rounds at most %.0f %% longer than the fastest, expected %d",
      QuietOf(totals_).size(), totals_.size(), 100 * kMostSpread, kSettledRounds));
}

CostProfile::Number RoundCosts::CostOf(size_t measurement) const {
  std::vector<double> quiet;
  for (const size_t round : QuietOf(totals_)) quiet.push_back(rounds_[round][measurement]);
  const double spread = SpreadOf(quiet);
  return {
      .value = std::accumulate(quiet.begin(), quiet.end(), 0.0) / static_cast<double>(quiet.size()),
      .spread = spread <= kMostSpread ? spread : 0};
}

}  // namespace stretto::bench
