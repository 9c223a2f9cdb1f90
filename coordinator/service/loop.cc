// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/loop.h"

#include <chrono>
#include <utility>

#include "proto/base/check.h"

namespace stretto::service {

void Loop::Start(absl::Duration period, std::function<void()> tick) {
  STRETTO_CHECK(!thread_.joinable());
  thread_ = std::thread(
      [this, period, tick = std::move(tick)] { Run(absl::ToChronoNanoseconds(period), tick); });
}

void Loop::Post(std::function<void()> task) {
  {
    const MutexLock lock(mu_);
    if (stopping_) return;
    tasks_.push_back(std::move(task));
  }
  wake_.NotifyOne();
}

void Loop::Stop() {
  {
    const MutexLock lock(mu_);
    stopping_ = true;
  }
  wake_.NotifyOne();
  if (thread_.joinable()) thread_.join();
}

void Loop::Run(std::chrono::nanoseconds period, const std::function<void()>& tick) {
  auto next_tick = std::chrono::steady_clock::now() + period;
  MutexLock lock(mu_);
  while (true) {
    wake_.WaitUntil(mu_, next_tick,
                    [this]() REQUIRES(mu_) { return stopping_ || !tasks_.empty(); });
    if (!tasks_.empty()) {
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.Unlock();
      task();
      task = nullptr;  // destroys what the task holds without the lock
      lock.Lock();
    } else if (stopping_) {
      return;
    }
    // Checked after every task, so that a full queue cannot delay ticks and, with them, leases.
    if (std::chrono::steady_clock::now() >= next_tick) {
      lock.Unlock();
      tick();
      lock.Lock();
      next_tick = std::chrono::steady_clock::now() + period;
    }
  }
}

}  // namespace stretto::service
