// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether a job starts again after an attempt has failed. Pure functions of a job's record; the
// core calls them when the last rank of an attempt is gone.

#include <string>

#include "absl/time/time.h"
#include "coordinator/core/records.h"
#include "proto/base/exit_reason.h"

namespace stretto::coordinator {

// The cause that a reason belongs to; kNone for those that no restart can cure, such as bad input.
RestartCause CauseOf(ExitReason reason);

// Whether the reason lies with the machine of the rank, so that its worker is to blame.
bool IsFaultOfWorker(ExitReason reason);

const char* NameOf(RestartCause cause);  // "NodeLoss"; "" for kNone

// Whether a restart for this cause counts towards the job's budget.
inline bool Counts(RestartCause cause) { return cause != RestartCause::kPreemption; }

struct RestartDecision {
  bool restart = false;
  RestartCause cause = RestartCause::kNone;
  absl::Duration delay;  // until the next attempt may start
  // Why not, as reason and message of condition Restarting. Empty for a job without a policy.
  std::string reason, message;
};

// Decides for a job whose current attempt has ended, or would end, with a first failure of this
// reason.
RestartDecision DecideRestart(const JobRecord& job, const std::string& reason);

}  // namespace stretto::coordinator
