// SPDX-License-Identifier: Apache-2.0
#pragma once
// The middle of measured times.

#include <algorithm>
#include <cstddef>
#include <vector>

namespace stretto {

// Returns the median of at least one value; of an even number the higher of the two in the middle.
inline double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace stretto
