// SPDX-License-Identifier: Apache-2.0
#pragma once
// Why a rank ended, in one word. Trainers and daemons report it (RankExit.reason), the coordinator
// stores it and gives the one that explains a job's end as the reason of its condition Succeeded.

#include <cstdint>

#include "absl/strings/string_view.h"

namespace stretto {

enum class ExitReason : uint8_t {
  kUnknown,  // a name that this build does not know

  // Without a failure.
  kCompleted,     // all steps are done
  kEarlyStopped,  // the held-out loss stopped improving
  kCancelled,     // stopped as asked

  // A trainer's own report.
  kSpecRefused,         // the assignment is not one that a trainer can run
  kDataInvalid,         // the data set is missing, damaged, or not what the job expects
  kWeightsInvalid,      // likewise the weights that the job starts from
  kCheckpointInvalid,   // likewise a checkpoint
  kResumeRefused,       // the checkpoint is of another job
  kInsufficientMemory,  // the step does not fit
  kDeviceUnavailable,   // no plug-in, driver or GPU, another build of it, or no NCCL
  kDeviceFailed,        // the device, or a call of its libraries, failed while it computed
  kPrepareFailed,       // any other failure before the first step
  kNonFiniteGradients,  // too many gradient norms in a row were not finite
  kReplicasDiffer,      // parameters that every rank holds are not the same on all of them
  kCheckpointFailed,    // the checkpoint that the job is for could not be written
  kPeerLost,            // another rank of the job ended or became unreachable
  kDaemonLost,          // the worker daemon was silent for longer than its lease
  kStaleEpoch,          // the daemon has a newer attempt of the job

  // A daemon's account of a process that left no report.
  kCrashed,         // by a signal that a fault of the program raises
  kKilled,          // by another signal
  kFailed,          // it exited with a code
  kExitUnobserved,  // it ended while no daemon watched it

  // A daemon's account of a rank that it did not start.
  kSlotUnknown,
  kSlotFaulty,
  kDiskFull,
  kSpawnFailed,

  // The coordinator's account.
  kStopped,      // its daemon ended it along with the job
  kExited,       // it ended without a reason
  kTrainerLost,  // its worker came back without it
  kSlotLost,     // its worker came back without its slot
  kWorkerLost,   // its worker did not come back
};

// The name at the wire and in the store, "Completed"; of kUnknown: "".
const char* NameOf(ExitReason reason);

// The reason of that name, or kUnknown.
ExitReason ExitReasonOf(absl::string_view name);

// Whether a rank that ended so, with exit code 0, did what it was for.
inline bool Succeeds(ExitReason reason) {
  return reason == ExitReason::kCompleted || reason == ExitReason::kEarlyStopped;
}

}  // namespace stretto
