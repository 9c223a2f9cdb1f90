// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/calibrate/settle.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "proto/base/status_macros.h"
#include "worker/bench/common/disturbance.h"
#include "worker/bench/common/median.h"
#include "worker/engine/cost/profile.h"

namespace stretto::bench {

namespace {

// Returns those of `values`, sorted, that spread least: two thirds, kSettledRounds at least.
absl::Span<const double> ClosestOf(absl::Span<const double> values) {
  const size_t count = std::max<size_t>(kSettledRounds, (2 * values.size() + 2) / 3);
  if (values.size() <= count) return values;
  size_t best = 0;
  for (size_t i = 1; i + count <= values.size(); ++i) {
    if (SpreadOf(values.subspan(i, count)) < SpreadOf(values.subspan(best, count))) best = i;
  }
  return values.subspan(best, count);
}

}  // namespace

absl::StatusOr<Settled> Settle(const std::string& what,
                               absl::FunctionRef<absl::StatusOr<std::vector<double>>()> measure) {
  std::vector<std::vector<double>> rounds;  // by value, sorted
  Settled settled;
  for (int round = 0; round < kMostRounds; ++round) {
    ASSIGN_OR_RETURN(const std::vector<double> values, measure());
    rounds.resize(values.size());
    settled = {};
    for (size_t i = 0; i < values.size(); ++i) {
      std::vector<double>& sorted = rounds[i];
      sorted.insert(std::upper_bound(sorted.begin(), sorted.end(), values[i]), values[i]);
      const absl::Span<const double> closest = ClosestOf(sorted);
      settled.spread = std::max(settled.spread, SpreadOf(closest));
      settled.medians.push_back(MedianOf({closest.begin(), closest.end()}));
    }
    if (round + 1 >= kSettledRounds && settled.spread <= kMostSpread) return settled;
  }
  return UnsettledError(absl::StrFormat(
      "%s: found repeats of which the closest two thirds spread by %.1f %%, expected at "
      "most %.0f %% within %d rounds",
      what, 100 * settled.spread, 100 * kMostSpread, kMostRounds));
}

absl::Status UnsettledError(const std::string& message) {
  return absl::FailedPreconditionError(absl::StrCat(message, "; calibrate on an idle machine"));
}

// No communicator and no executor has errors of this code.
bool IsUnsettled(const absl::Status& status) { return absl::IsFailedPrecondition(status); }

}  // namespace stretto::bench
