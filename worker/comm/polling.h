#pragma once
// How a thread waits for what can only be asked: by a clock, with a pause between questions.

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
