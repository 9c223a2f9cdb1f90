// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/link/watchdog.h"

#include <time.h>

#include <algorithm>
#include <utility>

#include "proto/base/clock.h"

namespace stretto::trainer {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(500);
// More than this between two looks is time in which this process stood still, which nobody's
// silence explains.
constexpr absl::Duration kMostCounted = absl::Seconds(2);

absl::Duration CpuTime() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

}  // namespace

Watchdog::Watchdog(FlightRecorder& flight, DaemonLink& link, absl::Duration limit,
                   std::function<void()> end)
    : flight_(flight), link_(link), limit_(limit), end_(std::move(end)) {
  // At once: a process that is stopped before its first sign of life would pass for one that has
  // not begun to give any.
  flight_.Pulse(Clock::Real().Monotonic(), CpuTime());
  thread_ = std::thread([this] { Run(); });
}

Watchdog::~Watchdog() {
  {
    const MutexLock lock(mu_);
    stop_ = true;
  }
  stopping_.NotifyAll();
  thread_.join();
}

void Watchdog::Run() {
  absl::Duration last = Clock::Real().Monotonic();
  const MutexLock lock(mu_);
  while (!stopping_.WaitFor(mu_, absl::ToChronoMilliseconds(kInterval),
                            [this]() REQUIRES(mu_) { return stop_; })) {
    const absl::Duration now = Clock::Real().Monotonic();
    flight_.Pulse(now, CpuTime());
    link_.CountSilence(std::min(now - std::exchange(last, now), kMostCounted));
    if (link_.silence() > limit_ && end_ != nullptr) std::exchange(end_, nullptr)();
  }
}

}  // namespace stretto::trainer
