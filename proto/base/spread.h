// SPDX-License-Identifier: Apache-2.0
#pragma once
// By how much the repeats of one measurement differ, and when something else on the machine
// disturbed it.

#include <algorithm>

#include "absl/types/span.h"

namespace stretto {

// What spreads more was disturbed.
inline constexpr double kMostSpread = 0.10;

// Returns by how much the greatest of at least one value exceeds the least, as a share of it; 0 if
// the least is 0.
inline double SpreadOf(absl::Span<const double> values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return *least > 0 ? *most / *least - 1 : 0;
}

}  // namespace stretto
