// SPDX-License-Identifier: Apache-2.0
#pragma once
// The reports of a rank: each is written to its report log first, then sent to the daemon.

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "proto/base/mutex.h"
#include "stretto/v1alpha1/worker.pb.h"
#include "worker/engine/exec/ledger.h"
#include "worker/engine/program/verify.h"
#include "worker/report/report_log.h"
#include "worker/trainer/job_config.h"
#include "worker/trainer/link/daemon_link.h"
#include "worker/trainer/process/preemption.h"

namespace stretto::trainer {

v1alpha1::Ledger ToMessage(const StepLedger& ledger, double wall_seconds,
                           const Preempted& preempted);

// The choices of a rank that has prepared, and its memory: that of steps, what evaluations have of
// their own, and the copy for asynchronous checkpoints.
v1alpha1::RankPrepared PreparedMessage(const JobConfig& config, const ArenaBytes& step,
                                       const ArenaBytes& evaluation, int64_t copy_bytes);

// Thread-safe.
class Reporter {
 public:
  // Borrows the link.
  Reporter(ReportLog log, DaemonLink& link, const JobConfig& config);

  // Sends `report`, whose content is set; ids and sequence number are filled in. If the log cannot
  // be written, the report is sent nevertheless, and the log is tried again with the next report:
  // sequence numbers have no gaps, and training continues. The first failure adds a warning
  // (condition LogIntact).
  void Send(v1alpha1::RankReport report);

  // Sends the last report, even if it cannot be logged. Errors: ResourceExhausted and others of the
  // log.
  absl::Status Exit(const v1alpha1::RankExit& exit);

 private:
  void SendLocked(v1alpha1::RankReport& report) REQUIRES(mu_);
  absl::Status FlushLocked() REQUIRES(mu_);

  DaemonLink& link_;
  const std::string job_id_, job_uid_;
  const int64_t epoch_;
  const Rank rank_;
  Mutex mu_;
  ReportLog log_ GUARDED_BY(mu_);
  std::vector<v1alpha1::RankReport> unwritten_ GUARDED_BY(mu_);  // oldest first
  bool warned_ GUARDED_BY(mu_) = false;
};

}  // namespace stretto::trainer
