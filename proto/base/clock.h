// SPDX-License-Identifier: Apache-2.0
#pragma once
// Time as a dependency. Decisions take `now` as an argument; only mains and drivers hold a Clock.

#include "absl/time/time.h"
#include "proto/base/mutex.h"

namespace stretto {

class Clock {
 public:
  virtual ~Clock() = default;
  // Wall time, for people and records.
  virtual absl::Time Now() const = 0;
  // Time since an arbitrary origin; never jumps. For leases, timeouts and the step ledger.
  virtual absl::Duration Monotonic() const = 0;

  // The machine's clocks. Thread-safe.
  static const Clock& Real();
};

// Changes only by Advance. Thread-safe.
class FakeClock final : public Clock {
 public:
  explicit FakeClock(absl::Time start = absl::UnixEpoch()) : now_(start) {}
  absl::Time Now() const override;
  absl::Duration Monotonic() const override;
  void Advance(absl::Duration step);

 private:
  mutable Mutex mu_;
  absl::Time now_ GUARDED_BY(mu_);
};

}  // namespace stretto
