// SPDX-License-Identifier: Apache-2.0
#pragma once
// SIGTERM and SIGINT of a trainer, taken by a thread of its own.

#include <atomic>
#include <functional>
#include <thread>

#include "proto/base/mutex.h"

namespace stretto::trainer {

// The first signal sets a flag that ranks agree on before the next step. When the process has not
// ended some seconds later, because a step waits for a peer that is gone, its groups are aborted.
// Both signals must be blocked in every thread of the process.
class SignalThread {
 public:
  SignalThread();
  ~SignalThread();
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

  const std::atomic<bool>& terminate() const { return terminate_; }
  // Ends what this process waits for; called from the thread until the next call of Watch. Null:
  // nothing.
  void Watch(std::function<void()> abort);

 private:
  void Serve();

  std::atomic<bool> terminate_{false}, done_{false};
  Mutex mu_;
  std::function<void()> abort_ GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace stretto::trainer
