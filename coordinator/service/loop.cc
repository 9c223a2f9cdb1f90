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

void Loop::Post(std::function<void()> task, const char* name) {
  {
    const MutexLock lock(mu_);
    if (stopping_) return;
    tasks_.push_back({std::move(task), name});
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

void Loop::RunTask(const std::function<void()>& task, const char* name) const {
  if (guard_) guard_();
  const auto start = std::chrono::steady_clock::now();
  task();
  const absl::Duration took = absl::FromChrono(std::chrono::steady_clock::now() - start);
  if (took > kTaskBudget && over_budget_) over_budget_(name, took);
}

void Loop::Run(std::chrono::nanoseconds period, const std::function<void()>& tick) {
  auto next_tick = std::chrono::steady_clock::now() + period;
  MutexLock lock(mu_);
  while (true) {
    wake_.WaitUntil(mu_, next_tick,
                    [this]() REQUIRES(mu_) { return stopping_ || !tasks_.empty(); });
    if (!tasks_.empty()) {
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.Unlock();
      RunTask(task.run, task.name);
      task.run = nullptr;  // destroys what the task holds without the lock
      lock.Lock();
    } else if (stopping_) {
      return;
    }
    // Checked after every task, so that a full queue cannot delay ticks and, with them, leases.
    if (std::chrono::steady_clock::now() >= next_tick) {
      lock.Unlock();
      RunTask(tick, "Tick");
      lock.Lock();
      next_tick = std::chrono::steady_clock::now() + period;
    }
  }
}

}  // namespace stretto::service
