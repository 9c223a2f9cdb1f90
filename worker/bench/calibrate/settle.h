// SPDX-License-Identifier: Apache-2.0
#pragma once
// Repeats a measurement of times until it agrees with itself.

#include <cstddef>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "proto/base/spread.h"

namespace stretto::bench {

inline constexpr int kSettledRounds = 5, kMostRounds = 100;

struct Repeats {
  double median = 0;
  double spread = 0;  // of the values that agree most
  bool settled = false;

  // That of a number in a file of costs: 0 if the repeats do not agree, and only their median is
  // known.
  double spread_of_cost() const { return settled && spread <= kMostSpread ? spread : 0; }
};

// Other work makes a time longer and never shorter, so the undisturbed times are the quiet ones
// (worker/bench/common/disturbance.h). kAny needs no agreement: its median is that of
// kSettledRounds repeats.
enum class Values { kTimes, kAny };

// Calls `measure`, which returns a value above 0, until the values have settled, at most
// kMostRounds times. They have when a third of them, kSettledRounds at least, are quiet. The median
// is of those. Errors: those of `measure`.
absl::StatusOr<Repeats> Repeat(Values kind, absl::FunctionRef<absl::StatusOr<double>()> measure);

// An error of a machine that is too busy to be measured.
absl::Status UnsettledError(const std::string& message);
bool IsUnsettled(const absl::Status& status);

}  // namespace stretto::bench
