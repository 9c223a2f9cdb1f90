// SPDX-License-Identifier: Apache-2.0
#pragma once
// Intervals in tests: written in seconds, compared, printed.

#include <cmath>
#include <ostream>

#include "worker/engine/exec/executor.h"

namespace stretto {

inline constexpr int64_t kSecond = 1'000'000'000;

inline Interval At(double begin, double end) {
  return {std::llround(begin * 1e9), std::llround(end * 1e9)};
}

inline bool operator==(const Interval& a, const Interval& b) {
  return a.begin == b.begin && a.end == b.end;
}
inline void PrintTo(const Interval& interval, std::ostream* out) {
  *out << interval.begin << ".." << interval.end;
}

}  // namespace stretto
