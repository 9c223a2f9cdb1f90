#include "worker/trainer/exit_reason.h"

#include <utility>

#include "absl/strings/cord.h"

namespace stretto::trainer {
namespace {

constexpr char kReason[] = "stretto/reason";  // key of a payload

absl::Status Marked(absl::Status status, const char* reason) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kDeadlineExceeded:
      return status;
    default:
      status.SetPayload(kReason, absl::Cord(reason));
      return status;
  }
}

}  // namespace

absl::Status OfDevice(absl::Status status) { return Marked(std::move(status), kDeviceUnavailable); }

absl::Status OfWeights(absl::Status status) { return Marked(std::move(status), kWeightsInvalid); }

std::string ReasonOfPrepare(const absl::Status& status) {
  if (const auto reason = status.GetPayload(kReason); reason.has_value())
    return std::string(*reason);
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kPermissionDenied:
      return "DataInvalid";
    case absl::StatusCode::kDataLoss:
      return "CheckpointInvalid";
    case absl::StatusCode::kFailedPrecondition:
      return "ResumeRefused";
    case absl::StatusCode::kResourceExhausted:
      return "InsufficientMemory";
    case absl::StatusCode::kAborted:
      return "Cancelled";
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return "PeerLost";
    default:
      return "PrepareFailed";
  }
}

std::string ReasonOfStep(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kAborted:
      return "Cancelled";
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return "PeerLost";
    default:
      return kDeviceFailed;
  }
}

}  // namespace stretto::trainer
