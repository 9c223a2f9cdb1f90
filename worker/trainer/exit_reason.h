// SPDX-License-Identifier: Apache-2.0
#pragma once
// The reason for which a rank ended, from the status that it ended with, and its last report.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/base/exit_reason.h"
#include "stretto/v1alpha1/worker.pb.h"
#include "worker/trainer/train_loop.h"

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

// The reason of an error of a step or an evaluation: kDataInvalid (marked), kCancelled (Aborted),
// kInsufficientMemory (ResourceExhausted), kPeerLost (Unavailable, DeadlineExceeded), kDeviceFailed
// (all others, such as a backend's refusal of a shape).
ExitReason ReasonOfStep(const absl::Status& status);

// Sets the reason kTerminated, and a message that names the signal, if the rank stopped by itself
// because of it: `signal` is the one that it took (0: none), and `asked` whether its daemon had
// asked for a stop. The ranks that stopped along with it keep kCancelled.
void NoteSignal(int signal, bool asked, TrainResult* result);

// Returns the report of a rank that ended with `result`: exit code 0 if it completed, or stopped
// and saved what it was asked to. A failure has the last operation of the flight record in
// `run_folder`. `stop_reason` is that of the request to stop, if there was one. Errors: those of
// ReadFlightRecord.
absl::StatusOr<v1alpha1::RankExit> ExitOf(const TrainResult& result, const std::string& run_folder,
                                          const std::string& stop_reason);

}  // namespace stretto::trainer
