// SPDX-License-Identifier: Apache-2.0
#pragma once
// Repeats a measurement until it agrees with itself.

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace stretto::bench {

inline constexpr int kSettledRounds = 5, kMostRounds = 100;

struct Settled {
  std::vector<double> medians;
  double spread = 0;  // the largest of the values that agree
};

// Calls `measure`, which returns the same number of values above 0 each time, until each value
// agrees in two thirds of the calls and in kSettledRounds at least: those spread by at most
// kMostSpread (worker/engine/cost/profile.h). Returns their medians. So a call that other work
// disturbs is left out, and a measurement that alternates between two answers never settles.
// Errors: those of `measure`; after kMostRounds calls UnsettledError, naming `what`.
absl::StatusOr<Settled> Settle(const std::string& what,
                               absl::FunctionRef<absl::StatusOr<std::vector<double>>()> measure);

// An error of a machine that is too busy to be measured.
absl::Status UnsettledError(const std::string& message);
bool IsUnsettled(const absl::Status& status);

}  // namespace stretto::bench
