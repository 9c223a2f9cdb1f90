// SPDX-License-Identifier: Apache-2.0
#pragma once
// The last report of a rank, written by the daemon if the trainer could not: the exit status from
// the kernel, and the trainer's position from its flight record.

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "stretto/v1alpha1/worker.pb.h"
#include "worker/daemon/process.h"
#include "worker/daemon/run_folder.h"
#include "worker/daemon/trainers/rank_key.h"

namespace stretto::daemon {

// Reasons: Completed (0), Failed (another exit code), Crashed (SIGSEGV, SIGABRT, SIGBUS, SIGILL,
// SIGFPE, SIGSYS, SIGTRAP), InsufficientMemory (out of memory), Killed (another signal),
// ExitUnobserved (not our child: exit code -1).
// The message names rank, job, process and signal; `stop_reason`, if not empty, is the daemon's
// reason for ending it. Without a flight record, step, phase and last operation are empty.
stretto::v1alpha1::RankExit DescribeExit(const RankKey& key, const std::string& job_id,
                                         const RunFolder& folder, const ProcessId& process,
                                         const ExitStatus& status, const std::string& stop_reason,
                                         absl::Time now);

// Describes a rank that never started, with exit code 127. Reasons: SlotUnknown (OUT_OF_RANGE),
// DiskFull (RESOURCE_EXHAUSTED), Cancelled (CANCELLED), SlotFaulty (FAILED_PRECONDITION),
// SpawnFailed (any other).
stretto::v1alpha1::RankExit UnstartedExit(const RankKey& key, const std::string& job_id,
                                          const absl::Status& why, absl::Time now);

}  // namespace stretto::daemon
