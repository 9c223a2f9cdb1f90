// SPDX-License-Identifier: Apache-2.0
#pragma once
// Handles SIGTERM and SIGINT of a trainer in a thread of its own.

#include <atomic>
#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "proto/base/mutex.h"

namespace stretto::trainer {

// The first signal sets a flag that the ranks agree on before the next step, and then they save
// their state. If a step waits for a lost peer, so that the process makes no progress for some
// seconds, its groups are aborted. More signals change nothing. Both signals must be blocked in
// every thread of the process.
class SignalThread {
 public:
  SignalThread();
  ~SignalThread();
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

  const std::atomic<bool>& terminate() const { return terminate_; }
  int signal() const { return signal_.load(); }  // the first one; 0: none so far
  // Sets the function that aborts what this process waits for, and one that returns how long it has
  // made no progress. The thread may call them until the next call of Watch. Null: nothing.
  void Watch(std::function<void()> abort, std::function<absl::Duration()> idle);

 private:
  void Serve();

  std::atomic<bool> terminate_{false}, done_{false};
  std::atomic<int> signal_{0};
  Mutex mu_;
  std::function<void()> abort_ GUARDED_BY(mu_);
  std::function<absl::Duration()> idle_ GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace stretto::trainer
