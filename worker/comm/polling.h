// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a thread waits for a state that it can only poll: by a clock, with a pause between polls.

#include <functional>

#include "absl/time/time.h"
#include "proto/base/clock.h"

namespace stretto {

// Sleeps for 20 microseconds.
void PausePolling();

struct Polling {
  const Clock* clock = &Clock::Real();  // borrowed
  std::function<void()> pause = PausePolling;
};

}  // namespace stretto
