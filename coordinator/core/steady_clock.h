// SPDX-License-Identifier: Apache-2.0
#pragma once
// The clock of leases and timeouts: monotonic time without the time in which the coordinator stood
// still. A worker can be blamed for its silence only while somebody listens, and its loss can be
// acted upon only while it can be stored.
//
// Ticks divide time into rounds. A round that takes longer than `longest_round` counts as one of
// that length: the process was paused, or the loop waited for its disk. No time counts between Stop
// and Continue. The first round after a gap decides nothing, because what arrived during the gap
// may not have been read yet.
//
// Pure: time is an argument. Not thread-safe.

#include <algorithm>

#include "absl/time/time.h"

namespace stretto::coordinator {

class SteadyClock {
 public:
  explicit SteadyClock(absl::Duration longest_round) : longest_round_(longest_round) {}

  // What the clock shows at `monotonic`, which is not before the last call. 0 at the first call.
  absl::Duration At(absl::Duration monotonic) {
    since_ = std::min(since_, monotonic);
    last_tick_ = std::min(last_tick_, monotonic);
    if (stopped_) return shown_;
    return shown_ + std::clamp(monotonic - since_, absl::ZeroDuration(), longest_round_);
  }

  // Ends a round. Returns whether leases may end in it: false after a gap, unless the round before
  // followed a gap too, so that a coordinator that is always late still finds lost workers.
  bool Tick(absl::Duration monotonic) {
    const bool late = monotonic - last_tick_ > longest_round_;
    after_gap_ = late && !after_gap_;
    shown_ = At(monotonic);
    since_ = last_tick_ = monotonic;
    return !after_gap_;
  }

  // Ends a round that decides nothing because the store refused in it.
  void SkipTick(absl::Duration monotonic) {
    after_gap_ = false;
    shown_ = At(monotonic);
    since_ = last_tick_ = monotonic;
  }

  bool stopped() const { return stopped_; }
  void Stop(absl::Duration monotonic) {
    shown_ = At(monotonic);
    stopped_ = true;
  }
  void Continue(absl::Duration monotonic) {
    since_ = monotonic;
    stopped_ = false;
  }

 private:
  absl::Duration longest_round_;
  absl::Duration shown_;
  absl::Duration since_ = absl::InfiniteDuration();  // time counts from here
  absl::Duration last_tick_ = absl::InfiniteDuration();
  bool after_gap_ = false;
  bool stopped_ = false;
};

}  // namespace stretto::coordinator
