// SPDX-License-Identifier: Apache-2.0
#pragma once
// The coordinator's metrics, the rows of metric_table.h.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace stretto::telemetry {

// The state of the cluster at a scrape. States without members are listed as 0, so that their
// series do not vanish.
struct ClusterState {
  std::map<std::string, int> jobs;                           // by state
  std::map<std::string, int> workers;                        // by state
  std::map<std::pair<std::string, std::string>, int> slots;  // by device and state
  std::map<std::string, absl::Time> oldest_pending;          // by device: since when it waits
  std::map<std::tuple<std::string, std::string, std::string>, int>
      queue;                                           // device, priority, project
  std::map<std::string, int64_t> project_slots;        // by project
  std::map<std::string, int64_t> project_slots_limit;  // by project
  std::map<std::string, absl::Time> heartbeats;        // by worker: the last one
  std::map<std::pair<std::string, std::string>, absl::Duration> job_times;  // by job and state
  std::map<std::pair<std::string, int32_t>, double> straggler_seconds;      // by job and rank
  int64_t connections = 0;                                                  // to the gRPC port
  std::map<std::string, int64_t> connections_refused;  // by the limit: all, machine
  int64_t connections_closed_for_memory = 0;
  std::optional<bool> revocations_current;  // none without revocation lists
  // By whose it is, "own" or "ca": begin and end.
  std::map<std::string, std::pair<absl::Time, absl::Time>> certificates;
};

// Thread-safe.
class Telemetry {
 public:
  Telemetry();
  ~Telemetry();
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;

  // `read` is called by Text, and must stay callable until it is replaced (an empty function is
  // fine).
  void SetClusterState(std::function<ClusterState()> read);

  void QueueWaited(absl::Duration wait);
  // 0 lists the cause, so that its series exists from the start.
  void AddRestarts(const std::string& cause, int count);
  void TrainsAgain(absl::Duration after_failure);
  void SessionOpened();
  void LeaseExpired();
  void LeaseRenewed(absl::Duration after_arrival);
  void TaskOverBudget();
  void AuditLineLost();
  void StoreCommitted(absl::Duration duration, const absl::Status& status);
  // How the last commit ended; Ok before the first.
  absl::Status LastCommit() const;
  // `method` is the full gRPC path or any fixed name, `code` an UPPER_SNAKE status code.
  void RpcEnded(const std::string& method, const std::string& code, absl::Duration duration);

  // Returns the metrics in Prometheus's text format.
  std::string Text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stretto::telemetry
