// SPDX-License-Identifier: Apache-2.0
#pragma once
// The reason why a rank ended, in one word. Trainers and daemons report it (RankExit.reason). The
// coordinator stores it and uses the one that explains a job's end as the reason of its condition
// Succeeded.

#include <cstdint>

#include "absl/strings/string_view.h"

namespace stretto {

enum class ExitReason : uint8_t {
  kUnknown,  // a name that this build does not know

  // Without a failure.
  kCompleted,     // all steps are done
  kEarlyStopped,  // the held-out loss stopped improving
  kCancelled,     // stopped on request
  kTerminated,    // stopped by a signal that nobody of ours had announced

  // A trainer's own report.
  kSpecRefused,         // a trainer cannot run the assignment
  kDataInvalid,         // the data set is missing, damaged, or not what the job expects
  kWeightsInvalid,      // likewise for the weights that the job starts from
  kCheckpointInvalid,   // likewise for a checkpoint
  kResumeRefused,       // the checkpoint is of another job
  kInsufficientMemory,  // the step does not fit
  kDeviceUnavailable,   // no plug-in, driver, GPU or NCCL, or a plug-in of another build
  kDeviceFailed,        // the device, or a call of its libraries, failed in a step
  kPrepareFailed,       // any other failure before the first step
  kNonFiniteGradients,  // too many gradient norms in a row were not finite
  kReplicasDiffer,      // parameters that all ranks have in common differ
  kCheckpointFailed,    // the job's purpose is a checkpoint, which could not be written
  kPeerLost,            // another rank of the job ended or became unreachable
  kDaemonLost,          // the worker daemon was silent for longer than its lease
  kStaleEpoch,          // a newer attempt of the job has begun

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
  kHang,         // it stopped moving, or its network did
};

// The name on the wire and in the store, "Completed"; "" for kUnknown.
const char* NameOf(ExitReason reason);

// Returns the reason with that name, or kUnknown.
ExitReason ExitReasonOf(absl::string_view name);

// Returns whether a rank that ended with this reason and exit code 0 fulfilled its purpose.
inline bool Succeeds(ExitReason reason) {
  return reason == ExitReason::kCompleted || reason == ExitReason::kEarlyStopped;
}

}  // namespace stretto
