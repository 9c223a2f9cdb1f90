// SPDX-License-Identifier: Apache-2.0
#pragma once
// What /healthz says of a coordinator, which has a server for a part of its life only.

#include "absl/status/status.h"
#include "coordinator/service/server.h"
#include "proto/base/mutex.h"

namespace stretto::service {

// Asks the server, while there is one, whether it accepts connections. Thread-safe.
class Reachable {
 public:
  void Set(Server* server) {
    const MutexLock lock(mu_);
    server_ = server;
  }
  absl::Status Probe() {
    const MutexLock lock(mu_);
    return server_ == nullptr ? absl::OkStatus() : server_->Probe();
  }

 private:
  Mutex mu_;
  Server* server_ GUARDED_BY(mu_) = nullptr;
};

}  // namespace stretto::service
