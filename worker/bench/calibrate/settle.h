// SPDX-License-Identifier: Apache-2.0
#pragma once
// Repeats a measurement until it agrees with itself.

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "proto/base/spread.h"

namespace stretto::bench {

inline constexpr int kSettledRounds = 5, kMostRounds = 100;

struct Repeats {
  std::vector<double> medians;
  double spread = 0;    // the largest of the values that agree most
  double interval = 0;  // the largest of the 95 % confidence intervals of ratios' medians
  bool settled = false;
};

// Within how much the median of a ratio must be known where its repeats differ.
inline constexpr double kMostInterval = kMostSpread / 2;

// What a measurement returns. Other work makes a time longer and never shorter, so the shortest
// times are the undisturbed ones; a ratio of two times can be disturbed either way.
enum class Values { kTimes, kRatios };

// Calls `measure`, which returns the same number of values above 0 each time, until each value
// agrees in enough of the calls, kSettledRounds at least: times in the shortest third, ratios in
// the two thirds that are closest. Those that agree spread by at most kMostSpread
// (proto/base/spread.h), and the medians are theirs. Ratios also agree when the 95 % confidence
// interval of their median spreads by at most `most_interval`, for machines that never are quiet.
// After kMostRounds calls it returns what it has, which is not settled. Errors: those of `measure`.
absl::StatusOr<Repeats> Repeat(Values kind,
                               absl::FunctionRef<absl::StatusOr<std::vector<double>>()> measure,
                               double most_interval = kMostInterval);

// The same for ratios. Errors: also UnsettledError, naming `what`.
absl::StatusOr<Repeats> Settle(const std::string& what,
                               absl::FunctionRef<absl::StatusOr<std::vector<double>>()> measure,
                               double most_interval = kMostInterval);

// Returns the median of kSettledRounds first values, which need not agree. Errors: those of
// `measure`.
absl::StatusOr<double> MedianOfFew(
    absl::FunctionRef<absl::StatusOr<std::vector<double>>()> measure);

// An error of a machine that is too busy to be measured.
absl::Status UnsettledError(const std::string& message);
bool IsUnsettled(const absl::Status& status);

}  // namespace stretto::bench
