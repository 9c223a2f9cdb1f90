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

// The repeats of one measurement so far. They have settled when each value agrees in enough of
// them, kSettledRounds at least: times if a third of them are quiet, ratios if the two thirds that
// are closest spread by at most kMostSpread (proto/base/spread.h). The medians are of those that
// agree. Ratios also agree when the 95 % confidence interval of their median spreads by at most
// `most_interval`, for machines that never are quiet.
class Repeated {
 public:
  explicit Repeated(Values kind, double most_interval = kMostInterval)
      : kind_(kind), most_interval_(most_interval) {}

  // Adds what a repeat found: the same number of values above 0 each time.
  void Add(absl::Span<const double> values);
  // True when it has settled, and after kMostRounds repeats.
  bool done() const { return found_.settled || count_ == kMostRounds; }
  const Repeats& found() const { return found_; }

 private:
  Values kind_;
  double most_interval_;
  int count_ = 0;
  std::vector<std::vector<double>> sorted_;  // by value
  Repeats found_;
};

// Calls `measure` until its values are done. Errors: those of `measure`.
absl::StatusOr<Repeats> Repeat(Values kind,
                               absl::FunctionRef<absl::StatusOr<std::vector<double>>()> measure,
                               double most_interval = kMostInterval);

// Repeats several measurements in rounds, so that the repeats of each spread over the time of all:
// calls `measure(i)` for each position that is not done, once in each round, until all are done or
// `enough`, which it asks after kSettledRounds rounds and each later one. Errors: those of both.
absl::Status RepeatInRounds(absl::Span<Repeated> measurements,
                            absl::FunctionRef<absl::StatusOr<std::vector<double>>(size_t)> measure,
                            absl::FunctionRef<absl::StatusOr<bool>()> enough);

// Repeats ratios. Errors: also UnsettledError, naming `what`.
absl::StatusOr<Repeats> Settle(const std::string& what,
                               absl::FunctionRef<absl::StatusOr<std::vector<double>>()> measure,
                               double most_interval = kMostInterval);

// An error of a machine that is too busy to be measured.
absl::Status UnsettledError(const std::string& message);
bool IsUnsettled(const absl::Status& status);

}  // namespace stretto::bench
