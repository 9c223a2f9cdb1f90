// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/exit_reason.h"

#include <utility>

#include "absl/strings/cord.h"

namespace stretto::trainer {
namespace {

constexpr char kReason[] = "stretto/reason";  // key of a payload

absl::Status Marked(absl::Status status, ExitReason reason) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kDeadlineExceeded:
      return status;
    default:  // any other code of absl
      status.SetPayload(kReason, absl::Cord(NameOf(reason)));
      return status;
  }
}

}  // namespace

absl::Status OfDevice(absl::Status status) {
  return Marked(std::move(status), ExitReason::kDeviceUnavailable);
}

absl::Status OfData(absl::Status status) {
  return Marked(std::move(status), ExitReason::kDataInvalid);
}

absl::Status OfWeights(absl::Status status) {
  return Marked(std::move(status), ExitReason::kWeightsInvalid);
}

ExitReason ReasonOfPrepare(const absl::Status& status) {
  if (const auto reason = status.GetPayload(kReason); reason.has_value())
    return ExitReasonOf(std::string(*reason));
  switch (status.code()) {
    case absl::StatusCode::kDataLoss:
      return ExitReason::kCheckpointInvalid;
    case absl::StatusCode::kFailedPrecondition:
      return ExitReason::kResumeRefused;
    case absl::StatusCode::kResourceExhausted:
      return ExitReason::kInsufficientMemory;
    case absl::StatusCode::kAborted:
      return ExitReason::kCancelled;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return ExitReason::kPeerLost;
    default:  // any other code of absl
      return ExitReason::kPrepareFailed;
  }
}

ExitReason ReasonOfCheckpoint(const absl::Status& status) {
  return absl::IsDataLoss(status) ? ExitReason::kReplicasDiffer : ExitReason::kPeerLost;
}

ExitReason ReasonOfStep(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kAborted:
      return ExitReason::kCancelled;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return ExitReason::kPeerLost;
    default:  // any other code of absl
      return ExitReason::kDeviceFailed;
  }
}

}  // namespace stretto::trainer
