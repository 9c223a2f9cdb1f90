// SPDX-License-Identifier: Apache-2.0
#pragma once
// Records when the operations of each step ran, in the rank's run folder (report/trace_log.h).

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "stretto/v1alpha1/job.pb.h"
#include "worker/engine/exec/ledger.h"
#include "worker/engine/program/program.h"
#include "worker/report/trace_log.h"

namespace stretto::trainer {

// Training never depends on it: records that cannot be written are lost, and the trainer's log
// reports this once. Not thread-safe.
class TraceRecorder {
 public:
  TraceRecorder(const std::string& run_folder, const Program& program);

  // Records the inputs of the ledger, between steps. `begin` is the wall clock at step.begin. Makes
  // one write; after the first steps it allocates nothing.
  void Record(const v1alpha1::StepReport& report, absl::Span<const Interval> operations,
              const HostWaits& waits, Interval step, absl::Time begin);

 private:
  void Warn(const absl::Status& status);

  std::optional<TraceLog> log_;
  v1alpha1::TraceRecord record_;  // reused
  bool warned_ = false;
};

}  // namespace stretto::trainer
