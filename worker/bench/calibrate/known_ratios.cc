// SPDX-License-Identifier: Apache-2.0

// Keeps all ratios of each case, and judges their means anew after each round.

#include "worker/bench/calibrate/known_ratios.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "absl/strings/str_format.h"
#include "proto/base/status_macros.h"
#include "worker/bench/calibrate/settle.h"

namespace stretto::bench {
namespace {

constexpr double kTrimmed = 0.1;      // at each end
constexpr double kDeviations = 1.96;  // to each side of a mean, of 95 % of a normal distribution

// The rounds of one case.
class RatioRounds {
 public:
  explicit RatioRounds(const RatioCase& timed) : timed_(timed) {}

  bool done() const { return !known_.empty() && widest() <= timed_.interval.wanted; }
  const RatioCase& timed() const { return timed_; }
  const std::vector<KnownRatio>& known() const { return known_; }

  double widest() const {
    double widest = 0;
    for (const KnownRatio& each : known_) widest = std::max(widest, each.interval);
    return widest;
  }

  absl::Status Measure() {
    ASSIGN_OR_RETURN(const std::vector<double> found, timed_.measure());
    values_.resize(found.size());
    for (size_t i = 0; i < found.size(); ++i) values_[i].push_back(found[i]);
    if (values_.front().size() < kLeastRatioRounds) return absl::OkStatus();
    known_.clear();
    for (const std::vector<double>& each : values_) known_.push_back(TrimmedMeanOf(each));
    return absl::OkStatus();
  }

 private:
  const RatioCase& timed_;
  std::vector<std::vector<double>> values_;  // by value and round
  std::vector<KnownRatio> known_;            // none before kLeastRatioRounds
};

}  // namespace

KnownRatio TrimmedMeanOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  const auto cut = static_cast<size_t>(kTrimmed * count);
  const double kept = count - 2 * static_cast<double>(cut);
  const double mean = std::accumulate(values.begin() + cut, values.end() - cut, 0.0) / kept;
  // Each value that was cut counts as the nearest one that was not.
  std::fill(values.begin(), values.begin() + cut, values[cut]);
  std::fill(values.end() - cut, values.end(), values[values.size() - cut - 1]);
  const double middle = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - middle) * (value - middle);
  const double error = std::sqrt(squares / (count - 1)) * std::sqrt(count) / kept;
  return {.mean = mean, .interval = 2 * kDeviations * error / mean};
}

absl::StatusOr<std::vector<std::vector<KnownRatio>>> RepeatRatios(
    const std::vector<RatioCase>& cases) {
  std::vector<RatioRounds> all(cases.begin(), cases.end());
  for (int round = 0; round < kMostRatioRounds; ++round) {
    for (RatioRounds& each : all) {
      if (!each.done()) RETURN_IF_ERROR(each.Measure());
    }
  }
  std::vector<std::vector<KnownRatio>> known;
  for (const RatioRounds& each : all) {
    const double most = each.timed().interval.most;
    if (each.widest() > most) {
      return UnsettledError(absl::StrFormat(
          "%s: found means that are known within %.1f %% after %d rounds, expected at most %.1f "
          "%%",
          each.timed().what, 100 * each.widest(), kMostRatioRounds, 100 * most));
    }
    known.push_back(each.known());
  }
  return known;
}

}  // namespace stretto::bench
