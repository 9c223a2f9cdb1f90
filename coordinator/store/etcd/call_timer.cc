// SPDX-License-Identifier: Apache-2.0

// One thread waits for the call that ends first.

#include "coordinator/store/etcd/call_timer.h"

#include <grpcpp/grpcpp.h>

namespace stretto::coordinator {

CallTimer::CallTimer() : thread_([this] { Run(); }) {}

CallTimer::~CallTimer() {
  {
    const MutexLock lock(mu_);
    stop_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void CallTimer::Run() {
  MutexLock lock(mu_);
  while (!stop_) {
    const auto first = watches_.begin();
    if (first == watches_.end()) {
      changed_.Wait(mu_, [this]() REQUIRES(mu_) { return stop_ || !watches_.empty(); });
    } else if (const auto end = first->first; end > std::chrono::steady_clock::now()) {
      changed_.WaitUntil(mu_, end, [this, end]() REQUIRES(mu_) {
        return stop_ || watches_.empty() || watches_.begin()->first < end;
      });
    } else {
      first->second->waits_ = false;
      first->second->context_.TryCancel();
      watches_.erase(first);
    }
  }
}

CallTimer::Watch::Watch(CallTimer& timer, grpc::ClientContext& context, absl::Duration within)
    : timer_(timer),
      context_(context),
      end_(std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(within)) {
  {
    const MutexLock lock(timer_.mu_);
    timer_.watches_.emplace(end_, this);
  }
  timer_.changed_.NotifyAll();
}

CallTimer::Watch::~Watch() {
  const MutexLock lock(timer_.mu_);
  if (waits_) timer_.watches_.erase({end_, this});
}

bool CallTimer::Watch::over() const { return std::chrono::steady_clock::now() >= end_; }

}  // namespace stretto::coordinator
