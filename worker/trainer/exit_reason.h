// SPDX-License-Identifier: Apache-2.0
#pragma once
// The reason for which a rank ended, from the status that it ended with.

#include "absl/status/status.h"
#include "proto/base/exit_reason.h"

namespace stretto::trainer {

// Marks an error in opening the device of a rank with kDeviceUnavailable, because ReasonOfPrepare
// would interpret its code in another way. ResourceExhausted, DeadlineExceeded and Aborted have the
// same meaning everywhere and stay unmarked.
absl::Status OfDevice(absl::Status status);

// Mark an error in reading the job's data with kDataInvalid, and one in reading its initial weights
// with kWeightsInvalid, in the same way.
absl::Status OfData(absl::Status status);
absl::Status OfWeights(absl::Status status);

// The reason of an error before the first step: kCheckpointInvalid (DataLoss), kResumeRefused
// (FailedPrecondition), kInsufficientMemory (ResourceExhausted), kCancelled (Aborted), kPeerLost
// (Unavailable, DeadlineExceeded), kDeviceUnavailable, kDataInvalid and kWeightsInvalid (marked),
// kPrepareFailed (all others).
ExitReason ReasonOfPrepare(const absl::Status& status);

// The reason of an error of a checkpoint: kReplicasDiffer (DataLoss), kPeerLost (all others).
ExitReason ReasonOfCheckpoint(const absl::Status& status);

// The reason of an error of the executor: kCancelled (Aborted), kPeerLost (Unavailable,
// DeadlineExceeded), kDeviceFailed (all others).
ExitReason ReasonOfStep(const absl::Status& status);

}  // namespace stretto::trainer
