// SPDX-License-Identifier: Apache-2.0

// The table of causes, and the delay that grows while attempts save nothing.

#include "coordinator/core/restart.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"

namespace stretto::coordinator {
namespace {

constexpr absl::Duration kLongestDelay = absl::Minutes(5);

// The policy's backoff, doubled for each attempt in a row that saved no checkpoint but the first.
absl::Duration DelayOf(const JobRecord& job) {
  const absl::Duration backoff = job.restart->backoff;
  absl::Duration delay = backoff;
  int fruitless = 0;
  for (auto it = job.attempts.rbegin(); it != job.attempts.rend() && it->saved_step == 0; ++it) {
    if (Counts(it->cause) && ++fruitless > 1) delay *= 2;
  }
  return std::min(delay, std::max(backoff, kLongestDelay));
}

}  // namespace

RestartCause CauseOf(ExitReason reason) {
  switch (reason) {
    case ExitReason::kCrashed:
    case ExitReason::kKilled:
    case ExitReason::kFailed:
    case ExitReason::kExited:
    case ExitReason::kExitUnobserved:
    case ExitReason::kDeviceFailed:
    case ExitReason::kReplicasDiffer:  // a device has computed something else than its twin
    case ExitReason::kPrepareFailed:
    case ExitReason::kSpawnFailed:
      return RestartCause::kCrash;
    case ExitReason::kWorkerLost:
    case ExitReason::kTrainerLost:
    case ExitReason::kSlotLost:
    case ExitReason::kSlotUnknown:
    case ExitReason::kSlotFaulty:
    case ExitReason::kDeviceUnavailable:
    case ExitReason::kDiskFull:
    case ExitReason::kDaemonLost:
    case ExitReason::kPeerLost:
      return RestartCause::kNodeLoss;
    case ExitReason::kHang:
      return RestartCause::kHang;
    case ExitReason::kInsufficientMemory:
      return RestartCause::kOutOfMemory;
    case ExitReason::kStopped:
    case ExitReason::kTerminated:
      return RestartCause::kPreemption;
    case ExitReason::kUnknown:
    case ExitReason::kCompleted:
    case ExitReason::kEarlyStopped:
    case ExitReason::kCancelled:
    case ExitReason::kStaleEpoch:
    // Bad input, or a result that the same numbers would give again.
    case ExitReason::kSpecRefused:
    case ExitReason::kDataInvalid:
    case ExitReason::kWeightsInvalid:
    case ExitReason::kCheckpointInvalid:
    case ExitReason::kResumeRefused:
    case ExitReason::kNonFiniteGradients:
    case ExitReason::kCheckpointFailed:
      return RestartCause::kNone;
  }
  STRETTO_CHECK(false);
}

bool IsFaultOfWorker(ExitReason reason) {
  return reason == ExitReason::kWorkerLost || reason == ExitReason::kTrainerLost ||
         reason == ExitReason::kSlotLost || reason == ExitReason::kSlotFaulty ||
         reason == ExitReason::kDeviceUnavailable || reason == ExitReason::kDeviceFailed ||
         reason == ExitReason::kDiskFull || reason == ExitReason::kSpawnFailed;
}

const char* NameOf(RestartCause cause) {
  switch (cause) {
    case RestartCause::kNone:
      return "";
    case RestartCause::kCrash:
      return "Crash";
    case RestartCause::kNodeLoss:
      return "NodeLoss";
    case RestartCause::kHang:
      return "Hang";
    case RestartCause::kOutOfMemory:
      return "OutOfMemory";
    case RestartCause::kPreemption:
      return "Preemption";
  }
  STRETTO_CHECK(false);
}

RestartDecision DecideRestart(const JobRecord& job, const std::string& reason) {
  RestartDecision decision;
  decision.cause = CauseOf(ExitReasonOf(reason));
  if (!job.restart.has_value()) return decision;
  if (decision.cause == RestartCause::kNone) {
    decision.reason = "NotRetried";
    decision.message = absl::StrCat("a restart does not cure ", reason);
  } else if (!job.restart->on.contains(decision.cause)) {
    decision.reason = "CauseNotListed";
    decision.message = absl::StrCat("cause ", NameOf(decision.cause), " is not in restart.on");
  } else if (Counts(decision.cause) && job.restarts >= job.restart->max) {
    decision.reason = "BudgetSpent";
    decision.message =
        absl::StrCat(job.restarts, " of at most ", job.restart->max, " restarts are used");
  } else {
    decision.restart = true;
    decision.delay = DelayOf(job);
  }
  return decision;
}

}  // namespace stretto::coordinator
