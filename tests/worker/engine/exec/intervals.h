#pragma once
// Intervals in expectations.

#include <ostream>

#include "worker/engine/exec/executor.h"

namespace stretto {

inline bool operator==(const Interval& a, const Interval& b) {
  return a.begin == b.begin && a.end == b.end;
}
inline void PrintTo(const Interval& interval, std::ostream* out) {
  *out << interval.begin << ".." << interval.end;
}

}  // namespace stretto
