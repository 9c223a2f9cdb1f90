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
    std::lock_guard<std::mutex> lock(mu_);
    if (stopping_) return;
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
}

void Loop::Stop() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Loop::Run(std::chrono::nanoseconds period, const std::function<void()>& tick) {
  auto next_tick = std::chrono::steady_clock::now() + period;
  std::unique_lock<std::mutex> lock(mu_);
  while (true) {
    wake_.wait_until(lock, next_tick, [this] { return stopping_ || !tasks_.empty(); });
    if (!tasks_.empty()) {
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      task = nullptr;  // what it holds goes without the lock
      lock.lock();
    } else if (stopping_) {
      return;
    }
    if (std::chrono::steady_clock::now() >= next_tick) {
      lock.unlock();
      tick();
      lock.lock();
      next_tick = std::chrono::steady_clock::now() + period;
    }
  }
}

}  // namespace stretto::service
