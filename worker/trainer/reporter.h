// SPDX-License-Identifier: Apache-2.0
#pragma once
// Everything a rank tells the world: written to its report log first, then sent to the daemon.

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "proto/base/mutex.h"
#include "stretto/v1alpha1/worker.pb.h"
#include "worker/engine/exec/ledger.h"
#include "worker/report/report_log.h"
#include "worker/trainer/daemon_link.h"
#include "worker/trainer/job_config.h"

namespace stretto::trainer {

v1alpha1::Ledger ToMessage(const StepLedger& ledger, double wall_seconds);

// Thread-safe.
class Reporter {
 public:
  // Borrows the link.
  Reporter(ReportLog log, DaemonLink& link, const JobConfig& config);

  // The message's report is set; ids and sequence are filled in. When the log cannot be written,
  // the report is sent all the same and writing it is tried again before the next one: sequence
  // numbers stay without gaps, training goes on. The first time a warning follows it (condition
  // LogIntact).
  void Send(v1alpha1::RankReport report);

  // The last report. Errors: ResourceExhausted and the like; sent all the same.
  absl::Status Exit(const v1alpha1::RankExit& exit);

 private:
  void SendLocked(v1alpha1::RankReport& report) REQUIRES(mu_);
  absl::Status FlushLocked() REQUIRES(mu_);

  DaemonLink& link_;
  const std::string job_id_, job_uid_;
  const int64_t epoch_;
  const int rank_;
  Mutex mu_;
  ReportLog log_ GUARDED_BY(mu_);
  std::vector<v1alpha1::RankReport> unwritten_ GUARDED_BY(mu_);  // oldest first
  bool warned_ GUARDED_BY(mu_) = false;
};

}  // namespace stretto::trainer
