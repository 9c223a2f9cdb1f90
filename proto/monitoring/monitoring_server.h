// SPDX-License-Identifier: Apache-2.0
#pragma once
// What machines that watch over a daemon ask it, over plain HTTP without authentication:
//
//   /metrics   its metrics, for Prometheus
//   /healthz   200 while the process lives
//   /readyz    200 while it is of use, else 503 with a line that says why not
//
// No answer waits for a training step.

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/base/mutex.h"

struct mg_context;

namespace stretto::monitoring {

// Asked on the server's threads, several at a time. `ready` must not block; where `metrics` waits,
// later scrapes are refused with 503 and probes go on.
struct Pages {
  std::function<std::string()> metrics;  // in Prometheus's text format
  std::function<absl::Status()> ready;   // why not, in one line
};

struct ScrapedPages {
  const Pages pages;
  std::atomic<int> scrapes = 0;  // in progress
};

class MonitoringServer {
 public:
  // At "HOST:PORT", HOST a number or localhost; port 0 takes a free one.
  // INVALID_ARGUMENT: another form. UNAVAILABLE: in use, or not an address of ours. Both name it.
  static absl::StatusOr<std::unique_ptr<MonitoringServer>> Start(const std::string& address,
                                                                 Pages pages);
  // No page is asked for afterwards.
  ~MonitoringServer();
  MonitoringServer(const MonitoringServer&) = delete;
  MonitoringServer& operator=(const MonitoringServer&) = delete;

  int port() const { return port_; }

 private:
  MonitoringServer(std::string host, Pages pages);

  const std::string host_;
  ScrapedPages pages_;
  mg_context* context_ = nullptr;
  int port_ = 0;
};

// A page `ready` that is told what to say. Thread-safe.
class Readiness {
 public:
  explicit Readiness(absl::Status status) : status_(std::move(status)) {}
  void Set(absl::Status status) {
    const MutexLock lock(mu_);
    status_ = std::move(status);
  }
  absl::Status Get() const {
    const MutexLock lock(mu_);
    return status_;
  }

 private:
  mutable Mutex mu_;
  absl::Status status_ GUARDED_BY(mu_);
};

}  // namespace stretto::monitoring
