// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/cuda/tuning/tunings.h"

namespace stretto::cuda {

double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

int FastestOf(const std::vector<std::vector<double>>& times) {
  constexpr double kWorthIt = 0.99;
  int best = -1;
  double best_time = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    if (times[i].empty()) continue;
    const double time = MedianOf(times[i]);
    if (best >= 0 && time >= kWorthIt * best_time) continue;
    best = static_cast<int>(i);
    best_time = time;
  }
  return best;
}

}  // namespace stretto::cuda
