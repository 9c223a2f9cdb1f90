// SPDX-License-Identifier: Apache-2.0
#include "worker/comm/sleep.h"

#include <cerrno>
#include <ctime>

namespace stretto {

void SleepUntil(absl::Duration deadline) {
  const timespec until = absl::ToTimespec(deadline);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

}  // namespace stretto
