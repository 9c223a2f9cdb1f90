// SPDX-License-Identifier: Apache-2.0
#pragma once
// Repeats measurements of ratios in rounds until their means are known.

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace stretto::bench {

inline constexpr int kLeastRatioRounds = 10, kMostRatioRounds = 40;

// The mean of a measured ratio.
struct KnownRatio {
  double mean = 0;
  double interval = 0;  // the width of its 95 % confidence interval, as a share of it
};

// Returns the mean of at least four values without their smallest and largest tenth, because other
// work can move a ratio of two times far either way. The interval is that of a trimmed mean, by the
// winsorized deviation (Tukey and McLaughlin 1963).
KnownRatio TrimmedMeanOf(std::vector<double> values);

// Within how much a mean is wanted, and within how much it must be known after the last round, as
// KnownRatio has it.
struct RatioInterval {
  double wanted = 0, most = 0;
};

struct RatioCase {
  std::string what;
  // Returns ratios above 0, the same number each time, and at least one.
  std::function<absl::StatusOr<std::vector<double>>()> measure;
  RatioInterval interval = {};  // of each mean
};

// Calls each `measure` once in every round, so that the repeats of each spread over all rounds: a
// machine whose speed changes within them favours none. A case whose means are known as it wants
// is done after kLeastRatioRounds. Returns the means, by case and value. Errors: those of
// `measure`; UnsettledError (settle.h) that names the first case of which a mean is not known
// within `most` after kMostRatioRounds.
absl::StatusOr<std::vector<std::vector<KnownRatio>>> RepeatRatios(
    const std::vector<RatioCase>& cases);

}  // namespace stretto::bench
