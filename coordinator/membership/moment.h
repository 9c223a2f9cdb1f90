// SPDX-License-Identifier: Apache-2.0
#pragma once
// When something happens, on two clocks that must not be mixed.

#include "absl/time/time.h"

namespace stretto::coordinator {

struct Moment {
  // For records and people. It may jump either way, so nothing is decided by it but the
  // age of ended jobs and of faults, which must survive a restart.
  absl::Time wall = absl::InfinitePast();
  // For leases and timeouts. Since an arbitrary origin; never goes back. The driver makes it from a
  // monotonic clock: it leaves out the time in which the coordinator stood still (driver.h).
  absl::Duration steady;
};

}  // namespace stretto::coordinator
