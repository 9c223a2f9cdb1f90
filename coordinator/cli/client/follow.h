// SPDX-License-Identifier: Apache-2.0
#pragma once
// Follows a job to its end, across restarts of the coordinator.

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/cli/client/invocation.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

struct FollowHandlers {
  std::function<void(const v1alpha1::Job&)> on_job;
  // Called once for each step, in order, even if the connection was lost in between.
  std::function<void(const v1alpha1::StepReport&)> on_step;
  // Messages about the connection, for stderr.
  std::function<void(const std::string&)> on_notice;
  // Returns whether to stop following at this state of the job. Null: at its end only.
  std::function<bool(const v1alpha1::Job&)> is_enough = nullptr;
};

struct FollowResult {
  v1alpha1::Job job;      // as last seen
  bool detached = false;  // interrupted before the job ended, or was enough
};

// Follows from the step behind `after_step`. Errors: those of WatchJob; Unavailable if the
// coordinator did not return within invocation.give_up.
absl::StatusOr<FollowResult> FollowJob(const Invocation& invocation, const std::string& name,
                                       const FollowHandlers& handlers, int64_t after_step = 0);

// Writes the lines that `request` asks for to `sink`, each once. If it follows, continues until the
// job has ended, and reconnects as above. Cancelled when interrupted.
absl::Status FollowLogs(const Invocation& invocation, v1alpha1::StreamJobLogsRequest request,
                        const std::function<void(int rank, const std::string& data)>& sink,
                        const std::function<void(const std::string&)>& on_notice);

}  // namespace stretto::cli
