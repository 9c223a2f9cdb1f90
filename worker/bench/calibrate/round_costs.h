// SPDX-License-Identifier: Apache-2.0
#pragma once
// Many measurements, repeated in rounds of one repeat of each, as a step repeats its operations.

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "worker/engine/cost/profile.h"

namespace stretto::bench {

// A round is quiet as a run of a program is (worker/bench/common/disturbance.h): by the time that its
// measurements take together in a step. A cost is the mean of the quiet rounds, and not the median,
// because the time of a step is a sum, of its slow operations too.
class RoundCosts {
 public:
  // `calls`: how many times a step calls what each measurement repeats; 0 for what does not count.
  explicit RoundCosts(std::vector<double> calls) : calls_(std::move(calls)) {}

  // Adds a round: the seconds of one call, for each measurement.
  void Add(std::vector<double> seconds);

  // True if kSettledRounds are quiet.
  bool settled() const;
  // True when it has settled, and after three times as many rounds.
  bool done() const;
  // Errors: UnsettledError, unless it has settled.
  absl::Status ExpectSettled() const;

  // Returns the cost of a measurement; its spread is 0 if the quiet rounds differ by more than
  // kMostSpread. There must be a round.
  CostProfile::Number CostOf(size_t measurement) const;

 private:
  std::vector<double> calls_;
  std::vector<std::vector<double>> rounds_;
  std::vector<double> totals_;  // of rounds, in seconds of a step
};

}  // namespace stretto::bench
