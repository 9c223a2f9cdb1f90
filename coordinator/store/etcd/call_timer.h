// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ends calls in time by the monotonic clock. gRPC's deadlines are monotonic, but its threads wait
// for them on the wall clock: a wait that has begun when that is set back an hour ends an hour
// late.

#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "proto/base/mutex.h"

namespace grpc {
class ClientContext;
}  // namespace grpc

namespace stretto::coordinator {

// Thread-safe. Outlives its watches.
class CallTimer {
 public:
  CallTimer();
  ~CallTimer();
  CallTimer(const CallTimer&) = delete;
  CallTimer& operator=(const CallTimer&) = delete;

  // Cancels the call of `context` if it still exists after `within`. `context` outlives it.
  class Watch {
   public:
    Watch(CallTimer& timer, grpc::ClientContext& context, absl::Duration within);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    // Whether the time is over.
    bool over() const;

   private:
    friend class CallTimer;
    CallTimer& timer_;
    grpc::ClientContext& context_;
    const std::chrono::steady_clock::time_point end_;
    bool waits_ = true;  // the timer has it; guarded by the timer's mutex
  };

 private:
  void Run();

  Mutex mu_;
  CondVar changed_;
  bool stop_ GUARDED_BY(mu_) = false;
  std::set<std::pair<std::chrono::steady_clock::time_point, Watch*>> watches_ GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace stretto::coordinator
