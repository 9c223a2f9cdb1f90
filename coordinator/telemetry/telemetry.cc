// SPDX-License-Identifier: Apache-2.0

// The coordinator's metrics: counters that are updated as things happen, and the state of the
// cluster, which is read at each scrape. Each has a mutex of its own, because reading the state
// takes the driver's lock, under which counters are updated.

#include "coordinator/telemetry/telemetry.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/telemetry/metric_table.h"
#include "proto/base/mutex.h"
#include "proto/base/version.h"
#include "proto/metrics/families.h"

namespace stretto::telemetry {
namespace {

using metrics::Families;
using metrics::Histogram;
using metrics::Row;

constexpr double kQueueWaitSeconds[] = {0.01, 0.1, 0.5, 1,    5,    10,    30,
                                        60,   300, 600, 1800, 3600, 14400, 86400};
constexpr double kRestartSeconds[] = {1, 2, 5, 10, 15, 20, 30, 45, 60, 120, 300, 600, 1800, 3600};
constexpr double kRenewalSeconds[] = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.6, 1, 3, 10};
constexpr double kCommitSeconds[] = {0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10};
constexpr double kRpcSeconds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                  0.25,  0.5,    1,     2.5,  10,    60,   600};

double UnixSeconds(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }

void Show(const ClusterState& state, Families* families) {
  for (const auto& [name, count] : state.jobs) {
    families->Add(Row(kMetrics, "stretto_jobs"), {name}, count);
  }
  for (const auto& [name, count] : state.workers) {
    families->Add(Row(kMetrics, "stretto_workers"), {name}, count);
  }
  for (const auto& [what, count] : state.queue) {
    const auto& [device, priority, project] = what;
    families->Add(Row(kMetrics, "stretto_queue_jobs"), {device, priority, project}, count);
  }
  for (const auto& [project, slots] : state.project_slots) {
    families->Add(Row(kMetrics, "stretto_project_slots"), {project}, static_cast<double>(slots));
  }
  for (const auto& [project, slots] : state.project_slots_limit) {
    families->Add(Row(kMetrics, "stretto_project_slots_limit"), {project},
                  static_cast<double>(slots));
  }
  for (const auto& [what, count] : state.slots) {
    families->Add(Row(kMetrics, "stretto_slots"), {what.first, what.second}, count);
  }
  for (const auto& [device, time] : state.oldest_pending) {
    families->Add(Row(kMetrics, "stretto_oldest_pending_job_timestamp_seconds"), {device},
                  UnixSeconds(time));
  }
  for (const auto& [worker, time] : state.heartbeats) {
    families->Add(Row(kMetrics, "stretto_worker_last_heartbeat_timestamp_seconds"), {worker},
                  UnixSeconds(time));
  }
  families->Add(Row(kMetrics, "stretto_connections"), {}, static_cast<double>(state.connections));
  for (const auto& [limit, count] : state.connections_refused) {
    families->Add(Row(kMetrics, "stretto_connections_refused_total"), {limit},
                  static_cast<double>(count));
  }
  families->Add(Row(kMetrics, "stretto_connections_closed_for_memory_total"), {},
                static_cast<double>(state.connections_closed_for_memory));
  if (state.revocations_current) {
    families->Add(Row(kMetrics, "stretto_revocation_lists_current"), {},
                  *state.revocations_current ? 1 : 0);
  }
  for (const auto& [of, lifetime] : state.certificates) {
    families->Add(Row(kMetrics, "stretto_certificate_begin_timestamp_seconds"), {of},
                  UnixSeconds(lifetime.first));
    families->Add(Row(kMetrics, "stretto_certificate_end_timestamp_seconds"), {of},
                  UnixSeconds(lifetime.second));
  }
  for (const auto& [what, seconds] : state.straggler_seconds) {
    families->Add(Row(kMetrics, "stretto_straggler_seconds_total"),
                  {what.first, absl::StrCat(what.second)}, seconds);
  }
  for (const auto& [what, time] : state.job_times) {
    families->Add(Row(kMetrics, "stretto_job_seconds_total"), {what.first, what.second},
                  absl::ToDoubleSeconds(time));
  }
}

// Holds all counters, and the function that reads the rest at a scrape.
class Collector {
 public:
  std::vector<prometheus::MetricFamily> Collect() const {
    Families families(kMetrics);
    {
      const MutexLock lock(read_mu);
      if (read) Show(read(), &families);
    }
    const MutexLock lock(mu);
    families.Add(Row(kMetrics, "stretto_job_queue_wait_seconds"), {}, queue_wait);
    for (const auto& [cause, count] : restarts) {
      families.Add(Row(kMetrics, "stretto_job_restarts_total"), {cause}, count);
    }
    families.Add(Row(kMetrics, "stretto_job_restart_seconds"), {}, restart);
    families.Add(Row(kMetrics, "stretto_worker_sessions_total"), {}, sessions);
    families.Add(Row(kMetrics, "stretto_worker_leases_expired_total"), {}, leases_expired);
    families.Add(Row(kMetrics, "stretto_worker_heartbeat_delay_seconds"), {}, renewals);
    families.Add(Row(kMetrics, "stretto_loop_slow_tasks_total"), {}, slow_tasks);
    families.Add(Row(kMetrics, "stretto_audit_lines_lost_total"), {}, audit_lines_lost);
    families.Add(Row(kMetrics, "stretto_store_commit_seconds"), {}, commits);
    families.Add(Row(kMetrics, "stretto_store_commits_failed_total"), {}, commits_failed);
    families.Add(Row(kMetrics, "stretto_store_writable"), {}, last_commit.ok() ? 1 : 0);
    for (const auto& [what, count] : rpcs) {
      families.Add(Row(kMetrics, "stretto_rpcs_total"), {what.first, what.second}, count);
    }
    for (const auto& [method, durations] : rpc_durations) {
      families.Add(Row(kMetrics, "stretto_rpc_duration_seconds"), {method}, durations);
    }
    families.Add(Row(kMetrics, "stretto_build_info"),
                 {absl::StrCat(kProtocolVersion), kBuildVersion}, 1);
    return std::move(families).Take();
  }

  mutable Mutex read_mu;  // held during `read`, so that it can be replaced safely
  std::function<ClusterState()> read GUARDED_BY(read_mu);
  // Never held during `read`, which may count something itself.
  mutable Mutex mu;
  Histogram queue_wait GUARDED_BY(mu){kQueueWaitSeconds};
  std::map<std::string, double> restarts GUARDED_BY(mu);  // by cause
  Histogram restart GUARDED_BY(mu){kRestartSeconds};
  Histogram commits GUARDED_BY(mu){kCommitSeconds};
  double commits_failed GUARDED_BY(mu) = 0;
  absl::Status last_commit GUARDED_BY(mu);
  double sessions GUARDED_BY(mu) = 0;
  double leases_expired GUARDED_BY(mu) = 0;
  Histogram renewals GUARDED_BY(mu){kRenewalSeconds};
  double slow_tasks GUARDED_BY(mu) = 0;
  double audit_lines_lost GUARDED_BY(mu) = 0;
  // By code and method.
  std::map<std::pair<std::string, std::string>, double> rpcs GUARDED_BY(mu);
  std::map<std::string, Histogram> rpc_durations GUARDED_BY(mu);  // by method
};

}  // namespace

struct Telemetry::Impl {
  Collector collector;
};

Telemetry::Telemetry() : impl_(std::make_unique<Impl>()) {}

Telemetry::~Telemetry() = default;

void Telemetry::SetClusterState(std::function<ClusterState()> read) {
  const MutexLock lock(impl_->collector.read_mu);
  impl_->collector.read = std::move(read);
}

void Telemetry::QueueWaited(absl::Duration wait) {
  const MutexLock lock(impl_->collector.mu);
  impl_->collector.queue_wait.Observe(absl::ToDoubleSeconds(wait));
}

void Telemetry::AddRestarts(const std::string& cause, int count) {
  const MutexLock lock(impl_->collector.mu);
  impl_->collector.restarts[cause] += count;
}

void Telemetry::TrainsAgain(absl::Duration after_failure) {
  const MutexLock lock(impl_->collector.mu);
  impl_->collector.restart.Observe(absl::ToDoubleSeconds(after_failure));
}

void Telemetry::SessionOpened() {
  const MutexLock lock(impl_->collector.mu);
  ++impl_->collector.sessions;
}

void Telemetry::LeaseExpired() {
  const MutexLock lock(impl_->collector.mu);
  ++impl_->collector.leases_expired;
}

void Telemetry::LeaseRenewed(absl::Duration after_arrival) {
  const MutexLock lock(impl_->collector.mu);
  impl_->collector.renewals.Observe(absl::ToDoubleSeconds(after_arrival));
}

void Telemetry::TaskOverBudget() {
  const MutexLock lock(impl_->collector.mu);
  ++impl_->collector.slow_tasks;
}

void Telemetry::AuditLineLost() {
  const MutexLock lock(impl_->collector.mu);
  ++impl_->collector.audit_lines_lost;
}

void Telemetry::StoreCommitted(absl::Duration duration, const absl::Status& status) {
  const MutexLock lock(impl_->collector.mu);
  impl_->collector.commits.Observe(absl::ToDoubleSeconds(duration));
  if (!status.ok()) ++impl_->collector.commits_failed;
  impl_->collector.last_commit = status;
}

absl::Status Telemetry::LastCommit() const {
  const MutexLock lock(impl_->collector.mu);
  return impl_->collector.last_commit;
}

void Telemetry::RpcEnded(const std::string& method, const std::string& code,
                         absl::Duration duration) {
  const MutexLock lock(impl_->collector.mu);
  ++impl_->collector.rpcs[{code, method}];
  impl_->collector.rpc_durations.try_emplace(method, kRpcSeconds)
      .first->second.Observe(absl::ToDoubleSeconds(duration));
}

std::string Telemetry::Text() const { return metrics::Text(impl_->collector.Collect()); }

}  // namespace stretto::telemetry
