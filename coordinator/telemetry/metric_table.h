// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every metric of the coordinator, in the order of a scrape. docs/METRICS.md shows it.

#include "proto/metrics/definition.h"

namespace stretto::telemetry {

inline constexpr metrics::Definition kMetrics[] = {
    {"stretto_jobs", metrics::Type::kGauge, "jobs", "state", "Jobs now in each state."},
    {"stretto_job_seconds_total", metrics::Type::kCounter, "seconds", "training_job state",
     "How long the job has waited for slots, got ready, and run, stopping included."},
    {"stretto_job_queue_wait_seconds", metrics::Type::kHistogram, "seconds", "",
     "From submission to placement, of jobs that were placed. Buckets from 10 ms to a day."},
    {"stretto_oldest_pending_job_timestamp_seconds", metrics::Type::kGauge, "seconds since 1970",
     "device", "When the job was submitted that has waited longest. While one waits."},
    {"stretto_slots", metrics::Type::kGauge, "slots", "device state",
     "Slots of READY workers. One that runs a rank is USED, unless it is FAULTY."},
    {"stretto_workers", metrics::Type::kGauge, "workers", "state", "Workers now in each state."},
    {"stretto_worker_last_heartbeat_timestamp_seconds", metrics::Type::kGauge, "seconds since 1970",
     "worker", "When the worker's last heartbeat came."},
    {"stretto_worker_sessions_total", metrics::Type::kCounter, "sessions", "",
     "Sessions of workers that were opened."},
    {"stretto_worker_leases_expired_total", metrics::Type::kCounter, "leases", "",
     "Sessions that were ended because no heartbeat came in time."},
    {"stretto_store_commit_seconds", metrics::Type::kHistogram, "seconds", "",
     "Duration of commits to the job store, failed ones included. Buckets from 0.1 ms to 10 s."},
    {"stretto_store_commits_failed_total", metrics::Type::kCounter, "commits", "",
     "Commits that the job store refused."},
    {"stretto_rpcs_total", metrics::Type::kCounter, "calls", "code method", "Finished calls."},
    {"stretto_rpc_duration_seconds", metrics::Type::kHistogram, "seconds", "method",
     "Duration of finished calls; a stream is one call. Buckets from 1 ms to 10 min."},
    {"stretto_build_info", metrics::Type::kGauge, "", "protocol version",
     "Always 1. Version of this coordinator and of the protocol that workers have to speak."},
};

}  // namespace stretto::telemetry
