// SPDX-License-Identifier: Apache-2.0
#pragma once
// The coordinator's metrics, the rows of metric_table.h.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace stretto::telemetry {

// What the coordinator knows at a scrape. Numbers of states that nothing is in are listed as 0, so
// that series do not vanish.
struct ClusterState {
  std::map<std::string, int> jobs;                           // by state
  std::map<std::string, int> workers;                        // by state
  std::map<std::pair<std::string, std::string>, int> slots;  // by device and state
  std::map<std::string, absl::Time> oldest_pending;          // by device: when it was submitted
  std::map<std::string, absl::Time> heartbeats;              // by worker: the last one
  std::map<std::pair<std::string, std::string>, absl::Duration> job_times;  // by job and state
};

// Thread-safe.
class Telemetry {
 public:
  Telemetry();
  ~Telemetry();
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;

  // Called by Text. `read` must stay callable until it is replaced
  // (an empty function is fine).
  void SetClusterState(std::function<ClusterState()> read);

  void QueueWaited(absl::Duration wait);
  void SessionOpened();
  void LeaseExpired();
  void StoreCommitted(absl::Duration duration, const absl::Status& status);
  // `method` is the full gRPC path or any fixed name, `code` an UPPER_SNAKE status code.
  void RpcEnded(const std::string& method, const std::string& code, absl::Duration duration);

  // What a scrape returns, in Prometheus's text format.
  std::string Text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stretto::telemetry
