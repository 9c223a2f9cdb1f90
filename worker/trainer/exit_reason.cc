// SPDX-License-Identifier: Apache-2.0

// The codes of a status mean different things in prepare, in a checkpoint and in a step, so each
// has a table of its own. Where the code alone does not say whose fault it was, the place that
// knows marks the status with a payload.

#include "worker/trainer/exit_reason.h"

#include <google/protobuf/util/time_util.h>

#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "proto/base/clock.h"
#include "proto/base/status_macros.h"
#include "worker/report/flight_record.h"

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

std::optional<ExitReason> MarkOf(const absl::Status& status) {
  const auto reason = status.GetPayload(kReason);
  if (!reason.has_value()) return std::nullopt;
  return ExitReasonOf(std::string(*reason));
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
  if (const std::optional<ExitReason> mark = MarkOf(status)) return *mark;
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
  if (const std::optional<ExitReason> mark = MarkOf(status)) return *mark;
  switch (status.code()) {
    case absl::StatusCode::kAborted:
      return ExitReason::kCancelled;
    case absl::StatusCode::kResourceExhausted:
      return ExitReason::kInsufficientMemory;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return ExitReason::kPeerLost;
    default:  // any other code of absl
      return ExitReason::kDeviceFailed;
  }
}

void NoteSignal(int signal, bool asked, TrainResult* result) {
  if (signal == 0 || asked || result->reason != ExitReason::kCancelled) return;
  result->reason = ExitReason::kTerminated;
  result->message = absl::StrCat("received SIG", sigabbrev_np(signal));
}

absl::StatusOr<v1alpha1::RankExit> ExitOf(const TrainResult& result, const std::string& run_folder,
                                          const std::string& stop_reason) {
  ASSIGN_OR_RETURN(const FlightState flight, ReadFlightRecord(run_folder + "/flight.bin"));
  const bool stopped = result.reason == ExitReason::kCancelled;
  const bool clean = result.status.ok() && (stopped || result.reason == ExitReason::kTerminated ||
                                            Succeeds(result.reason));
  v1alpha1::RankExit exit;
  exit.set_exit_code(clean ? 0 : 1);
  exit.set_reason(NameOf(result.reason));
  exit.set_message(!result.status.ok() ? std::string(result.status.message())
                   : stopped           ? stop_reason
                                       : result.message);
  exit.set_step(result.state.step);
  exit.set_phase(NameOf(flight.phase));
  *exit.mutable_time() = google::protobuf::util::TimeUtil::NanosecondsToTimestamp(
      absl::ToUnixNanos(Clock::Real().Now()));
  if (!clean && flight.last_operation >= 0) {
    const absl::StatusOr<std::string> line =
        OperationLine(run_folder + "/program.txt", flight.last_operation);
    if (line.ok()) exit.set_last_operation(*line);
  }
  return exit;
}

}  // namespace stretto::trainer
