#pragma once
// Why a rank ended, in one word (RankExit.reason), by the status it ended with.

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace stretto::trainer {

// The device, or what it needs, is not there: no plug-in, driver or GPU, another build, no code for
// the GPU, no NCCL or another version of it.
inline constexpr char kDeviceUnavailable[] = "DeviceUnavailable";
// The device, or a call of its libraries, failed while it computed.
inline constexpr char kDeviceFailed[] = "DeviceFailed";

// The weights that the job starts from are missing, damaged or of another model.
inline constexpr char kWeightsInvalid[] = "WeightsInvalid";

// An error in getting hold of what a rank computes on, marked with kDeviceUnavailable because its
// code alone would mean something else to ReasonOfPrepare. ResourceExhausted, DeadlineExceeded and
// Aborted mean the same everywhere.
absl::Status OfDevice(absl::Status status);

// An error in reading the weights that the job starts from, marked with kWeightsInvalid likewise.
absl::Status OfWeights(absl::Status status);

// Before the first step: DataInvalid (InvalidArgument, NotFound, OutOfRange, PermissionDenied),
// CheckpointInvalid (DataLoss), ResumeRefused (FailedPrecondition), InsufficientMemory
// (ResourceExhausted), Cancelled (Aborted), PeerLost (Unavailable, DeadlineExceeded),
// kDeviceUnavailable, kWeightsInvalid, PrepareFailed (all else).
std::string ReasonOfPrepare(const absl::Status& status);

// Of the executor: Cancelled (Aborted), PeerLost (Unavailable, DeadlineExceeded), kDeviceFailed.
std::string ReasonOfStep(const absl::Status& status);

}  // namespace stretto::trainer
