// SPDX-License-Identifier: Apache-2.0
#pragma once
// Why a rank ended, by the status that it ended with.

#include "absl/status/status.h"
#include "proto/base/exit_reason.h"

namespace stretto::trainer {

// An error in getting hold of what a rank computes on, marked with kDeviceUnavailable because its
// code alone would mean something else to ReasonOfPrepare. ResourceExhausted, DeadlineExceeded and
// Aborted mean the same everywhere.
absl::Status OfDevice(absl::Status status);

// An error in reading the weights that the job starts from, marked with kWeightsInvalid likewise.
absl::Status OfWeights(absl::Status status);

// Before the first step: kDataInvalid (InvalidArgument, NotFound, OutOfRange, PermissionDenied),
// kCheckpointInvalid (DataLoss), kResumeRefused (FailedPrecondition), kInsufficientMemory
// (ResourceExhausted), kCancelled (Aborted), kPeerLost (Unavailable, DeadlineExceeded),
// kDeviceUnavailable, kWeightsInvalid, kPrepareFailed (all else).
ExitReason ReasonOfPrepare(const absl::Status& status);

// Of a checkpoint that ends the job: kReplicasDiffer (DataLoss), kPeerLost (all else).
ExitReason ReasonOfCheckpoint(const absl::Status& status);

// Of the executor: kCancelled (Aborted), kPeerLost (Unavailable, DeadlineExceeded), kDeviceFailed.
ExitReason ReasonOfStep(const absl::Status& status);

}  // namespace stretto::trainer
