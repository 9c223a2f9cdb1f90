// SPDX-License-Identifier: Apache-2.0
#pragma once
// A job followed to its end, across restarts of the coordinator.

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
  // Each step once, in order, even if the connection was lost in between.
  std::function<void(const v1alpha1::StepReport&)> on_step;
  // Messages about the connection, for stderr.
  std::function<void(const std::string&)> on_notice;
};

struct FollowResult {
  v1alpha1::Job job;      // as last seen
  bool detached = false;  // interrupted before the job ended
};

// True for errors after which the same call may succeed: the coordinator restarts, or the network
// is gone for a moment.
bool IsTransient(const absl::Status& status);

// Follows from the first step. Errors: what WatchJob refuses with; Unavailable when the coordinator
// stayed away for invocation.give_up.
absl::StatusOr<FollowResult> FollowJob(const Invocation& invocation, const std::string& name,
                                       const FollowHandlers& handlers);

// The log of one rank (or all: `rank` < 0) to `sink`, each byte once. With `follow`, until the job
// has ended, and reconnecting as above. Cancelled when interrupted.
absl::Status FollowLogs(const Invocation& invocation, const std::string& name, int rank,
                        bool follow,
                        const std::function<void(int rank, const std::string& data)>& sink,
                        const std::function<void(const std::string&)>& on_notice);

}  // namespace stretto::cli
