// SPDX-License-Identifier: Apache-2.0
#include "coordinator/front/handover.h"

#include <unistd.h>

#include <chrono>
#include <utility>

#include "proto/base/clock.h"

namespace stretto::service {

Handover::Handover(Take take) : take_(std::move(take)), thread_([this] { Run(); }) {}

Handover::~Handover() {
  MutexLock lock(mu_);
  ending_ = true;
  for (const Arrived& arrived : waiting_) close(arrived.connection.fd);
  waiting_.clear();
  changed_.NotifyAll();
  // Most take no time. What is sent meanwhile keeps the thread again.
  const auto idle = [this]() REQUIRES(mu_) { return !current_.has_value(); };
  while (!changed_.WaitFor(mu_, std::chrono::milliseconds(50), idle))
    Surroundings::Real().Close(*current_);
  lock.Unlock();
  thread_.join();
}

void Handover::Add(int listener, Connection connection) {
  const MutexLock lock(mu_);
  waiting_.push_back({listener, std::move(connection)});
  changed_.NotifyAll();
}

std::optional<Connection> Handover::EndLong() {
  const MutexLock lock(mu_);
  const absl::Duration now = Clock::Real().Monotonic();
  if (!current_.has_value() || now - begun_ < kMost) return std::nullopt;
  Surroundings::Real().Close(*current_);
  begun_ = now;
  return current_;
}

void Handover::Run() {
  MutexLock lock(mu_);
  while (true) {
    changed_.Wait(mu_, [this]() REQUIRES(mu_) { return ending_ || !waiting_.empty(); });
    if (ending_) return;
    const Arrived next = std::move(waiting_.front());
    waiting_.pop_front();
    current_ = next.connection;
    begun_ = Clock::Real().Monotonic();
    lock.Unlock();
    take_(next.listener, next.connection.fd);
    lock.Lock();
    current_.reset();
    changed_.NotifyAll();
  }
}

}  // namespace stretto::service
