// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/client/reconnector.h"

#include "absl/strings/str_cat.h"
#include "proto/base/clock.h"
#include "proto/base/printable.h"
#include "proto/base/units.h"

namespace stretto::cli {

bool IsTransient(const absl::Status& status) {
  const std::string reason = ErrorReason(status);
  // The next coordinator continues.
  if (reason == "SHUTTING_DOWN" || reason == "STANDBY") return true;
  // A coordinator gives a reason with its errors; an error without one occurred on the way.
  if (!reason.empty()) return false;
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kCancelled:  // the server is shutting down
    case absl::StatusCode::kInternal:   // the stream was reset
    case absl::StatusCode::kDeadlineExceeded:
      return true;
    default:  // any other code of absl
      return false;
  }
}

Reconnector::Reconnector(const Invocation& invocation, const std::string& what,
                         const std::function<void(const std::string&)>& notice)
    : invocation_(invocation), what_(what), notice_(notice), heard_(Clock::Real().Monotonic()) {}

void Reconnector::Connected() {
  silence_is_fine_ = true;
  if (lost_) notice_(absl::StrCat("reconnected to ", invocation_.client.address()));
  lost_ = false;
  heard_ = Clock::Real().Monotonic();
}

absl::Status Reconnector::Wait(const absl::Status& status) {
  // Our own deadline ends an idle stream regularly, so this is no loss.
  const bool expired = status.code() == absl::StatusCode::kDeadlineExceeded;
  if (expired && silence_is_fine_ && !lost_) return absl::OkStatus();
  if (!lost_) {
    heard_ = Clock::Real().Monotonic();
    notice_(absl::StrCat("lost the coordinator at ", invocation_.client.address(), " (",
                         Printable(status.message()), "); ", what_, "; retrying for ",
                         stretto::FormatDuration(invocation_.give_up)));
  }
  lost_ = true;
  if (Clock::Real().Monotonic() - heard_ >= invocation_.give_up) {
    return absl::UnavailableError(absl::StrCat(status.message(), "; gave up after ",
                                               stretto::FormatDuration(invocation_.give_up)));
  }
  invocation_.interrupt.WaitFor(invocation_.retry_interval);
  return absl::OkStatus();
}

}  // namespace stretto::cli
