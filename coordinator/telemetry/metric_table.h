// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every metric of the coordinator, in the order of a scrape. docs/METRICS.md shows it.

#include "proto/metrics/definition.h"

namespace stretto::telemetry {

inline constexpr metrics::Definition kMetrics[] = {
    {"stretto_jobs", metrics::Type::kGauge, "jobs", "state", "Number of jobs in each state."},
    {"stretto_job_seconds_total", metrics::Type::kCounter, "seconds", "training_job state",
     "Time that the job has spent waiting for slots, preparing, running (including stopping), and "
     "suspended or ended before it was resumed. All of an earlier attempt counts as running."},
    {"stretto_straggler_seconds_total", metrics::Type::kCounter, "seconds", "training_job rank",
     "Time that the other ranks of its stage have waited for the rank, because its own work took "
     "longer than theirs, or because it had no CPU for longer. Of the present attempt; absent for "
     "a "
     "rank that shares its stage with nobody."},
    {"stretto_job_queue_wait_seconds", metrics::Type::kHistogram, "seconds", "",
     "Time from submission to placement of placed jobs. Buckets from 10 ms to a day."},
    {"stretto_job_restarts_total", metrics::Type::kCounter, "restarts", "cause",
     "Number of attempts that were placed after a failed one, by the cause of the failure."},
    {"stretto_job_restart_seconds", metrics::Type::kHistogram, "seconds", "",
     "Time from a failure until the next attempt trains. Buckets from 1 s to an hour."},
    {"stretto_oldest_pending_job_timestamp_seconds", metrics::Type::kGauge, "seconds since 1970",
     "device", "Since when the job has waited that has waited longest. Absent if no job waits."},
    {"stretto_queue_jobs", metrics::Type::kGauge, "jobs", "device priority project",
     "Number of PENDING jobs. A project without a quota is counted as other, and a priority as "
     "negative, zero or positive."},
    {"stretto_project_slots", metrics::Type::kGauge, "slots", "project",
     "Number of slots that jobs of the project hold. Projects without a quota are other."},
    {"stretto_project_slots_limit", metrics::Type::kGauge, "slots", "project",
     "The project's quota of slots, if it has one."},
    {"stretto_slots", metrics::Type::kGauge, "slots", "device state",
     "Number of slots of READY workers. A slot that a job holds is USED, unless it is FAULTY."},
    {"stretto_workers", metrics::Type::kGauge, "workers", "state",
     "Number of workers in each state."},
    {"stretto_worker_last_heartbeat_timestamp_seconds", metrics::Type::kGauge, "seconds since 1970",
     "worker", "Time of the worker's last heartbeat."},
    {"stretto_worker_sessions_total", metrics::Type::kCounter, "sessions", "",
     "Number of worker sessions opened."},
    {"stretto_worker_leases_expired_total", metrics::Type::kCounter, "leases", "",
     "Number of sessions that ended because no heartbeat arrived in time."},
    {"stretto_worker_heartbeat_delay_seconds", metrics::Type::kHistogram, "seconds", "",
     "Time from the arrival of a worker's message until it has renewed the worker's lease, which "
     "is "
     "at the latest with the next tick, within half a second. Of messages that arrive before that, "
     "the first counts. Buckets from 1 ms to 10 s."},
    {"stretto_loop_slow_tasks_total", metrics::Type::kCounter, "tasks", "",
     "Number of tasks that kept all calls waiting for more than 100 ms."},
    {"stretto_audit_lines_lost_total", metrics::Type::kCounter, "lines", "",
     "Number of lines that could not be written to the audit log, as on a full disk, and are in "
     "the "
     "daemon's log instead."},
    {"stretto_store_commit_seconds", metrics::Type::kHistogram, "seconds", "",
     "Duration of commits to the job store, including failed ones. Buckets from 0.1 ms to 10 s."},
    {"stretto_store_commits_failed_total", metrics::Type::kCounter, "commits", "",
     "Number of commits that the job store refused."},
    {"stretto_store_writable", metrics::Type::kGauge, "0 or 1", "",
     "1 if the job store took the last commit. While it is 0, as on a full disk, nothing new is "
     "accepted, and jobs that run continue."},
    {"stretto_connections", metrics::Type::kGauge, "connections", "",
     "Number of open connections to the gRPC port, as of the last second."},
    {"stretto_connections_refused_total", metrics::Type::kCounter, "connections", "limit",
     "Number of connections that were closed because there were too many: of all, or of one "
     "machine."},
    {"stretto_connections_closed_for_memory_total", metrics::Type::kCounter, "connections", "",
     "Number of connections that were closed because they sent most while the coordinator's memory "
     "grew beyond three quarters of --max-memory-bytes, or sent faster than they were read."},
    {"stretto_revocation_lists_current", metrics::Type::kGauge, "0 or 1", "",
     "1 if what is revoked is what the files of --tls-crl and --tokens say. While it is 0, one of "
     "them cannot be used, and its last good content holds. Absent without these flags."},
    {"stretto_certificate_begin_timestamp_seconds", metrics::Type::kGauge, "seconds since 1970",
     "certificate", "Since when the certificate in the file of this daemon is valid."},
    {"stretto_certificate_end_timestamp_seconds", metrics::Type::kGauge, "seconds since 1970",
     "certificate", "Until when it is valid. Absent without TLS."},
    {"stretto_rpcs_total", metrics::Type::kCounter, "calls", "code method",
     "Number of finished calls."},
    {"stretto_rpc_duration_seconds", metrics::Type::kHistogram, "seconds", "method",
     "Duration of finished calls; a stream is one call. Buckets from 1 ms to 10 min."},
    {"stretto_build_info", metrics::Type::kGauge, "", "protocol version",
     "Always 1. Version of this coordinator and of the protocol that workers must use."},
};

}  // namespace stretto::telemetry
