#pragma once
// The service's one thread. Reactors run on gRPC's threads and decide nothing: they post what they
// heard, and everything that touches shared state, the driver or the disk happens here, one task
// after the other. So the service needs no locks, and a slow disk blocks no reactor.
//
// Bound of the queue: a call in progress has at most one read, one write, one cancellation and one
// end under way, and the number of calls is limited per connection (server.cc).

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/time/time.h"

namespace stretto::service {

class Loop {
 public:
  Loop() = default;
  ~Loop() { Stop(); }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Starts the thread; `tick` runs on it every `period`. At most once.
  void Start(absl::Duration period, std::function<void()> tick);

  // Thread-safe. Tasks run in the order of posting; those posted after Stop never run.
  void Post(std::function<void()> task);

  // Runs what has been posted so far, then ends the thread. Not from the loop itself.
  void Stop();

 private:
  void Run(std::chrono::nanoseconds period, const std::function<void()>& tick);

  std::mutex mu_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;  // guarded by mu_
  bool stopping_ = false;                    // guarded by mu_
  std::thread thread_;
};

}  // namespace stretto::service
