// SPDX-License-Identifier: Apache-2.0
#pragma once
// A limit of time that no jump of the wall clock moves.

#include <algorithm>

#include "absl/time/time.h"
#include "proto/base/clock.h"

namespace stretto {

// A limit of time for something that waits or tries again, on the monotonic clock of `clock`, so
// that a jump of the wall clock neither ends nor extends it. A value.
class Deadline {
 public:
  explicit Deadline(absl::Duration within, const Clock& clock = Clock::Real())
      : clock_(&clock), end_(clock.Monotonic() + within) {}
  // Zero once it is over.
  absl::Duration Left() const { return std::max(end_ - clock_->Monotonic(), absl::ZeroDuration()); }
  bool over() const { return Left() == absl::ZeroDuration(); }
  // This limit, or `within` from now on if that comes first.
  Deadline AtMost(absl::Duration within) const {
    Deadline earlier(within, *clock_);
    earlier.end_ = std::min(earlier.end_, end_);
    return earlier;
  }

 private:
  const Clock* clock_;  // borrowed, not null
  absl::Duration end_;
};

}  // namespace stretto
