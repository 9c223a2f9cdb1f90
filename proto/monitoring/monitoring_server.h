// SPDX-License-Identifier: Apache-2.0
#pragma once
// The HTTP port on which machines watch a daemon, without authentication, and without TLS unless it
// is for pages alone:
//
//   /metrics   its metrics, for Prometheus
//   /healthz   200 while the process is alive and can be reached, else 503 with the reason
//   /readyz    200 while it can do its work, else 503 with a line that gives the reason
//   others     pages for people, where the daemon has any (coordinator/page)
//
// No answer waits for a training step, no probe for a scrape, a page or a slow client, and no
// scrape for a page (docs/reference/limits.md has the bounds). Only GET and HEAD are answered.

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/base/mutex.h"
#include "proto/monitoring/connection.h"

namespace stretto::monitoring {

// A request for any other path, as it was sent: nothing is decoded.
struct Request {
  std::string path = {};           // "/api/jobs"
  std::string query = {};          // what follows '?'
  std::string host = {};           // of the header Host; empty: there was none
  std::string authorization = {};  // of the header Authorization, likewise
  std::string stretto_page = {};   // of the header Stretto-Page, likewise
  std::string certificate = {};    // Connection::PeerCertificate
};

struct Answer {
  int code = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body = {};
  std::string headers = {};  // further ones, each with its line break "\r\n"
};

// Called on the server's threads: `metrics` and `page` several at a time, the others one at a time.
// `ready` must not block, and `healthy` for a second at most. If `metrics` or `page` waits, later
// requests of its kind are refused with 503, and the others still work.
struct Pages {
  // In Prometheus's text format. Null: this port has pages alone, and no probes either.
  std::function<std::string()> metrics = nullptr;
  std::function<absl::Status()> ready = nullptr;         // the reason if not ready, in one line
  std::function<absl::Status()> healthy = nullptr;       // likewise; null: always
  std::function<Answer(const Request&)> page = nullptr;  // null: other paths are not found
};

class MonitoringServer {
 public:
  // Serves at "HOST:PORT", where HOST is a number or localhost; port 0 takes a free one. `accept`
  // is called on one thread. Errors, which begin with `what` and name the address: INVALID_ARGUMENT
  // (another form), UNAVAILABLE (in use, or not one of our addresses).
  static absl::StatusOr<std::unique_ptr<MonitoringServer>> Start(
      const std::string& address, Pages pages, Accept accept = PlainConnection,
      const std::string& what = "metrics");
  // Calls no page afterwards.
  ~MonitoringServer();
  MonitoringServer(const MonitoringServer&) = delete;
  MonitoringServer& operator=(const MonitoringServer&) = delete;

  int port() const;

 private:
  class Impl;
  explicit MonitoringServer(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

// A `ready` page whose status is set from outside. Thread-safe.
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
