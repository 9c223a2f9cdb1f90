#pragma once
// SIGTERM and SIGINT of a trainer, taken by a thread of its own.

#include <atomic>
#include <mutex>
#include <thread>

#include "worker/comm/communicator.h"

namespace stretto::trainer {

// The first signal sets a flag that ranks agree on before the next step. When the process has not
// ended some seconds later, because a step waits for a peer that is gone, the group is aborted.
// Both signals must be blocked in every thread of the process.
class SignalThread {
 public:
  SignalThread();
  ~SignalThread();
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

  const std::atomic<bool>& terminate() const { return terminate_; }
  // The group to abort; borrowed until the next call. Null: none.
  void Watch(Communicator* communicator);

 private:
  void Serve();

  std::atomic<bool> terminate_{false}, done_{false};
  std::mutex mu_;
  Communicator* communicator_ = nullptr;  // guarded by mu_
  std::thread thread_;
};

}  // namespace stretto::trainer
