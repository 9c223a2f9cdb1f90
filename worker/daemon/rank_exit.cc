// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/rank_exit.h"

#include <signal.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/time_util.h"
#include "proto/base/exit_reason.h"
#include "worker/report/flight_record.h"

namespace stretto::daemon {
namespace {

using google::protobuf::util::TimeUtil;
using stretto::v1alpha1::RankExit;

constexpr int kUnobservedCode = -1;
constexpr int kUnstartedCode = 127;  // as shells report a program that cannot start

bool IsCrash(int signal) {
  switch (signal) {
    case SIGSEGV:
    case SIGABRT:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
    case SIGSYS:
    case SIGTRAP:
      return true;
    default:  // any other signal
      return false;
  }
}

ExitReason ReasonOf(const ExitStatus& status) {
  if (!status.observed) return ExitReason::kExitUnobserved;
  if (status.out_of_memory) return ExitReason::kInsufficientMemory;
  if (status.signal != 0)
    return IsCrash(status.signal) ? ExitReason::kCrashed : ExitReason::kKilled;
  return status.code == 0 ? ExitReason::kCompleted : ExitReason::kFailed;
}

std::string HowOf(const ExitStatus& status) {
  if (!status.observed) return "ended while no daemon watched it, exit status unknown";
  if (status.out_of_memory)
    return "was killed by the kernel, because memory ran out: its own limit, or that of the node";
  if (status.signal != 0) {
    return absl::StrCat(IsCrash(status.signal) ? "crashed with" : "was killed by", " signal ",
                        status.signal, " (", ::strsignal(status.signal), ")");
  }
  return absl::StrCat("exited with code ", status.code, " without a last report");
}

ExitReason ReasonNotStarted(const absl::Status& why) {
  if (absl::IsOutOfRange(why)) return ExitReason::kSlotUnknown;
  if (absl::IsResourceExhausted(why)) return ExitReason::kDiskFull;
  if (absl::IsCancelled(why)) return ExitReason::kCancelled;
  if (absl::IsFailedPrecondition(why)) return ExitReason::kSlotFaulty;
  return ExitReason::kSpawnFailed;
}

// Adds the trainer's position; nothing if it never recorded one.
void AddPlace(const RunFolder& folder, RankExit* exit) {
  const absl::StatusOr<FlightState> flight = ReadFlightRecord(folder.flight());
  if (!flight.ok()) return;
  exit->set_step(flight->step);
  exit->set_phase(NameOf(flight->phase));
  if (flight->last_operation < 0) return;
  const absl::StatusOr<std::string> line = OperationLine(folder.program(), flight->last_operation);
  exit->set_last_operation(line.ok() ? *line : absl::StrCat("operation ", flight->last_operation));
}

void SetTime(absl::Time now, RankExit* exit) {
  *exit->mutable_time() = TimeUtil::NanosecondsToTimestamp(absl::ToUnixNanos(now));
}

}  // namespace

RankExit DescribeExit(const RankKey& key, const std::string& job_id, const RunFolder& folder,
                      const ProcessId& process, const ExitStatus& status,
                      const std::string& stop_reason, absl::Time now) {
  RankExit exit;
  exit.set_exit_code(status.observed ? status.code : kUnobservedCode);
  exit.set_signal(status.signal);
  exit.set_reason(NameOf(ReasonOf(status)));
  AddPlace(folder, &exit);
  std::string message = absl::StrCat("rank ", key.rank, " of job ", job_id, " (pid ", process.pid,
                                     ") ", HowOf(status));
  if (exit.step() > 0) {
    absl::StrAppend(&message, " in step ", exit.step(), ", ", exit.phase());
    if (!exit.last_operation().empty()) absl::StrAppend(&message, ", at ", exit.last_operation());
  }
  if (!stop_reason.empty()) absl::StrAppend(&message, "; the daemon stopped it: ", stop_reason);
  exit.set_message(message);
  SetTime(now, &exit);
  return exit;
}

RankExit UnstartedExit(const RankKey& key, const std::string& job_id, const absl::Status& why,
                       absl::Time now) {
  RankExit exit;
  exit.set_exit_code(kUnstartedCode);
  exit.set_reason(NameOf(ReasonNotStarted(why)));
  exit.set_message(
      absl::StrCat("rank ", key.rank, " of job ", job_id, " did not start: ", why.message()));
  exit.set_phase("prepare");
  exit.set_stopped_by_daemon(absl::IsCancelled(why));
  SetTime(now, &exit);
  return exit;
}

}  // namespace stretto::daemon
