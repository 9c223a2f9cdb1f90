// SPDX-License-Identifier: Apache-2.0

// One thread takes connections in the order of their arrival. What the present one has used of its
// CPU time is read from outside, by the clock of the thread: a wall clock would also count while
// the machine stands still.

#include "coordinator/front/handover.h"

#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <utility>

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
  if (!current_.has_value() || CpuTime() - begun_ < kMost) return std::nullopt;
  Surroundings& real = Surroundings::Real();
  if (real.Of(*current_).received < MemoryGuard::kQuietBytes) return std::nullopt;
  real.Close(*current_);
  begun_ = CpuTime();
  return current_;
}

bool Handover::busy() {
  const MutexLock lock(mu_);
  return current_.has_value();
}

absl::Duration Handover::CpuTime() const {
  timespec time = {};
  clock_gettime(clock_, &time);
  return absl::DurationFromTimespec(time);
}

void Handover::Run() {
  MutexLock lock(mu_);
  pthread_getcpuclockid(pthread_self(), &clock_);
  while (true) {
    changed_.Wait(mu_, [this]() REQUIRES(mu_) { return ending_ || !waiting_.empty(); });
    if (ending_) return;
    const Arrived next = std::move(waiting_.front());
    waiting_.pop_front();
    current_ = next.connection;
    begun_ = CpuTime();
    lock.Unlock();
    take_(next.listener, next.connection.fd);
    lock.Lock();
    current_.reset();
    changed_.NotifyAll();
  }
}

}  // namespace stretto::service
