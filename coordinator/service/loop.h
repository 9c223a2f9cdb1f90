// SPDX-License-Identifier: Apache-2.0
#pragma once
// The service's one thread. Reactors run on gRPC's threads and decide nothing: they post what they
// received, and everything that touches shared state, the driver or the disk happens here, one task
// after the other. So the service needs no locks, and a slow disk blocks no reactor.
//
// Bound of the queue: a call in progress has at most one read, one write, one cancellation and one
// end outstanding, and the number of calls per connection is limited (server.cc).

#include <chrono>
#include <deque>
#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "proto/base/mutex.h"

namespace stretto::service {

class Loop {
 public:
  Loop() = default;
  ~Loop() { Stop(); }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Starts the thread, which also runs `tick` every `period`. At most once.
  void Start(absl::Duration period, std::function<void()> tick);

  // Thread-safe. Tasks run in the order of posting; a task posted after Stop never runs.
  void Post(std::function<void()> task);

  // Runs the tasks posted so far, then ends the thread. Must not be called from the loop itself.
  void Stop();

 private:
  void Run(std::chrono::nanoseconds period, const std::function<void()>& tick);

  Mutex mu_;
  CondVar wake_;
  std::deque<std::function<void()>> tasks_ GUARDED_BY(mu_);
  bool stopping_ GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace stretto::service
