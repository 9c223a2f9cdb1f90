// SPDX-License-Identifier: Apache-2.0
#pragma once
// Repeats a measurement until it agrees with itself.

#include <cstddef>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/base/spread.h"

namespace stretto::bench {

inline constexpr int kSettledRounds = 5, kMostRounds = 100;

struct Repeats {
  std::vector<double> medians;
  double spread = 0;    // the largest of the values that agree most
  double interval = 0;  // the largest of the 95 % confidence intervals of ratios' medians
  bool settled = false;

  // That of a number in a file of costs: 0 if the repeats do not agree, and only their median or its
  // interval is known.
  double spread_of_cost() const { return settled && spread <= kMostSpread ? spread : 0; }
};

// Within how much the median of a ratio must be known where its repeats differ.
inline constexpr double kMostInterval = kMostSpread / 2;

// What a measurement returns. Other work makes a time longer and never shorter, so the undisturbed
// times are the quiet ones (worker/bench/common/disturbance.h); a ratio of two times can be disturbed
// either way. kAny needs no agreement: its median is that of kSettledRounds repeats.
enum class Values { kTimes, kRatios, kAny };

// Calls `measure`, which returns the same number of values above 0 each time, until they have
// settled, at most kMostRounds times. They have when each value agrees in enough repeats,
// kSettledRounds at least: times if a third of them are quiet, ratios if the two thirds that are
// closest spread by at most kMostSpread (proto/base/spread.h). The medians are of those that agree.
// Ratios also agree when the 95 % confidence interval of their median spreads by at most
// `most_interval`, for machines that never are quiet. Errors: those of `measure`.
absl::StatusOr<Repeats> Repeat(Values kind,
                               absl::FunctionRef<absl::StatusOr<std::vector<double>>()> measure,
                               double most_interval = kMostInterval);

// Repeats ratios. Errors: also UnsettledError, naming `what`.
absl::StatusOr<Repeats> Settle(const std::string& what,
                               absl::FunctionRef<absl::StatusOr<std::vector<double>>()> measure,
                               double most_interval = kMostInterval);

// An error of a machine that is too busy to be measured.
absl::Status UnsettledError(const std::string& message);
bool IsUnsettled(const absl::Status& status);

}  // namespace stretto::bench
