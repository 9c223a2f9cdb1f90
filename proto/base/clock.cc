// SPDX-License-Identifier: Apache-2.0
#include "proto/base/clock.h"

#include <chrono>

#include "absl/time/clock.h"

namespace stretto {
namespace {

class RealClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
  absl::Duration Monotonic() const override {
    return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
  }
};

}  // namespace

const Clock& Clock::Real() {
  // Never destroyed: threads of static objects ask it until the process ends.
  static const RealClock& clock = *new RealClock;
  return clock;
}

absl::Time FakeClock::Now() const {
  const MutexLock lock(mu_);
  return now_;
}

absl::Duration FakeClock::Monotonic() const {
  const MutexLock lock(mu_);
  return now_ - absl::UnixEpoch();
}

void FakeClock::Advance(absl::Duration step) {
  const MutexLock lock(mu_);
  now_ += step;
}

}  // namespace stretto
