// SPDX-License-Identifier: Apache-2.0
#include "proto/base/exit_reason.h"

namespace stretto {

const char* NameOf(ExitReason reason) {
  switch (reason) {
    case ExitReason::kUnknown:
      return "";
    case ExitReason::kCompleted:
      return "Completed";
    case ExitReason::kEarlyStopped:
      return "EarlyStopped";
    case ExitReason::kCancelled:
      return "Cancelled";
    case ExitReason::kTerminated:
      return "Terminated";
    case ExitReason::kSpecRefused:
      return "SpecRefused";
    case ExitReason::kDataInvalid:
      return "DataInvalid";
    case ExitReason::kWeightsInvalid:
      return "WeightsInvalid";
    case ExitReason::kCheckpointInvalid:
      return "CheckpointInvalid";
    case ExitReason::kResumeRefused:
      return "ResumeRefused";
    case ExitReason::kInsufficientMemory:
      return "InsufficientMemory";
    case ExitReason::kDeviceUnavailable:
      return "DeviceUnavailable";
    case ExitReason::kDeviceFailed:
      return "DeviceFailed";
    case ExitReason::kPrepareFailed:
      return "PrepareFailed";
    case ExitReason::kNonFiniteGradients:
      return "NonFiniteGradients";
    case ExitReason::kReplicasDiffer:
      return "ReplicasDiffer";
    case ExitReason::kCheckpointFailed:
      return "CheckpointFailed";
    case ExitReason::kPeerLost:
      return "PeerLost";
    case ExitReason::kDaemonLost:
      return "DaemonLost";
    case ExitReason::kStaleEpoch:
      return "StaleEpoch";
    case ExitReason::kCrashed:
      return "Crashed";
    case ExitReason::kKilled:
      return "Killed";
    case ExitReason::kFailed:
      return "Failed";
    case ExitReason::kExitUnobserved:
      return "ExitUnobserved";
    case ExitReason::kSlotUnknown:
      return "SlotUnknown";
    case ExitReason::kSlotFaulty:
      return "SlotFaulty";
    case ExitReason::kDiskFull:
      return "DiskFull";
    case ExitReason::kSpawnFailed:
      return "SpawnFailed";
    case ExitReason::kStopped:
      return "Stopped";
    case ExitReason::kExited:
      return "Exited";
    case ExitReason::kTrainerLost:
      return "TrainerLost";
    case ExitReason::kSlotLost:
      return "SlotLost";
    case ExitReason::kWorkerLost:
      return "WorkerLost";
    case ExitReason::kHang:
      return "Hang";
  }
  return "";
}

ExitReason ExitReasonOf(absl::string_view name) {
  constexpr auto kLast = ExitReason::kHang;
  for (int i = 0; i <= static_cast<int>(kLast); ++i) {
    const auto reason = static_cast<ExitReason>(i);
    if (name == NameOf(reason)) return reason;
  }
  return ExitReason::kUnknown;
}

}  // namespace stretto
