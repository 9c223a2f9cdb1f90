// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/calibrate/settle.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/status_macros.h"
#include "worker/bench/common/disturbance.h"
#include "worker/bench/common/median.h"
#include "worker/engine/cost/profile.h"

namespace stretto::bench {

absl::StatusOr<Settled> Settle(const std::string& what,
                               absl::FunctionRef<absl::StatusOr<std::vector<double>>()> measure) {
  std::vector<std::vector<double>> rounds;  // by value
  Settled settled;
  for (int round = 0; round < kMostRounds; ++round) {
    ASSIGN_OR_RETURN(const std::vector<double> values, measure());
    rounds.resize(values.size());
    settled = {};
    for (size_t i = 0; i < values.size(); ++i) {
      std::vector<double>& last = rounds[i];
      last.push_back(values[i]);
      if (std::ssize(last) > kSettledRounds) last.erase(last.begin());
      settled.spread = std::max(settled.spread, SpreadOf(last));
      settled.medians.push_back(MedianOf(last));
    }
    if (round + 1 >= kSettledRounds && settled.spread <= kMostSpread) return settled;
  }
  return UnsettledError(absl::StrFormat(
      "%s: found repeats that spread by %.1f %%, expected at most %.0f %% within %d rounds", what,
      100 * settled.spread, 100 * kMostSpread, kMostRounds));
}

absl::Status UnsettledError(const std::string& message) {
  return absl::FailedPreconditionError(absl::StrCat(message, "; calibrate on an idle machine"));
}

// No communicator and no executor has errors of this code.
bool IsUnsettled(const absl::Status& status) { return absl::IsFailedPrecondition(status); }

}  // namespace stretto::bench
