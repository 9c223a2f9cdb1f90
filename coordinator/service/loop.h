// SPDX-License-Identifier: Apache-2.0
#pragma once
// The service's one thread. Reactors run on gRPC's threads and decide nothing: they post what they
// received, and everything that touches shared state, the driver or the disk happens here, one task
// after the other. So the service needs no locks, and a slow disk blocks no reactor.
//
// A task that takes longer than kTaskBudget is logged and counted: all calls wait for it.
//
// Bound of the queue: a call in progress has at most one read, one write, one cancellation and one
// end outstanding, and the number of calls per connection is limited (server.cc).

#include <chrono>
#include <deque>
#include <functional>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "proto/base/mutex.h"

namespace stretto::service {

class Loop {
 public:
  static constexpr absl::Duration kTaskBudget = absl::Milliseconds(100);

  // `over_budget` is called on the loop, with the name of the task and how long it took; `guard`
  // before each task.
  explicit Loop(std::function<void(const char*, absl::Duration)> over_budget = nullptr,
                std::function<void()> guard = nullptr)
      : over_budget_(std::move(over_budget)), guard_(std::move(guard)) {}
  ~Loop() { Stop(); }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Starts the thread, which also runs `tick` every `period`. At most once.
  void Start(absl::Duration period, std::function<void()> tick);

  // Thread-safe. Tasks run in the order of posting; a task posted after Stop never runs. `name` is
  // a literal; by default that of the function that posts.
  void Post(std::function<void()> task, const char* name = __builtin_FUNCTION());

  // Runs the tasks posted so far, then ends the thread. Must not be called from the loop itself.
  void Stop();

 private:
  struct Task {
    std::function<void()> run;
    const char* name;
  };
  // Runs and times one task.
  void RunTask(const std::function<void()>& task, const char* name) const;
  void Run(std::chrono::nanoseconds period, const std::function<void()>& tick);

  const std::function<void(const char*, absl::Duration)> over_budget_;
  const std::function<void()> guard_;
  Mutex mu_;
  CondVar wake_;
  std::deque<Task> tasks_ GUARDED_BY(mu_);
  bool stopping_ GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace stretto::service
