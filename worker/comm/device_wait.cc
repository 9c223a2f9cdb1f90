// SPDX-License-Identifier: Apache-2.0
#include "worker/comm/device_wait.h"

#include "absl/strings/str_cat.h"
#include "worker/comm/sleep.h"

namespace stretto {
namespace {

absl::Status PollAll(absl::Span<DeviceCommunicator* const> communicators) {
  absl::Status first;
  for (DeviceCommunicator* communicator : communicators) first.Update(communicator->Poll());
  return first;
}

// Whether everything is done. Communicators are asked last: an error of theirs cuts work short, and
// the stream then looks done.
absl::StatusOr<bool> Ask(absl::Span<DeviceCommunicator* const> communicators,
                         const DeviceDone& done) {
  absl::StatusOr<bool> is_done = done();
  const absl::Status status = PollAll(communicators);
  if (!status.ok()) return status;
  return is_done;
}

}  // namespace

void PausePolling() { SleepUntil(Clock::Real().Monotonic() + absl::Microseconds(20)); }

absl::Status AwaitDevice(absl::Span<DeviceCommunicator* const> communicators,
                         const DeviceDone& done, const DeviceWaitOptions& options) {
  const Polling& polling = options.polling;
  const absl::Duration deadline = polling.clock->Monotonic() + options.timeout;
  absl::Status failure;
  while (failure.ok()) {
    const absl::StatusOr<bool> is_done = Ask(communicators, done);
    if (is_done.ok() && *is_done) return absl::OkStatus();
    failure = is_done.status();
    if (failure.ok() && polling.clock->Monotonic() >= deadline) {
      failure = absl::DeadlineExceededError(
          absl::StrCat("the device did not finish within ", absl::FormatDuration(options.timeout)));
    }
    if (failure.ok()) polling.pause();
  }
  for (DeviceCommunicator* communicator : communicators) communicator->Abort();
  const absl::Duration rest = polling.clock->Monotonic() + options.grace;
  while (true) {
    PollAll(communicators).IgnoreError();
    const absl::StatusOr<bool> is_done = done();
    if (!is_done.ok() || *is_done) return failure;
    if (polling.clock->Monotonic() >= rest) {
      return absl::Status(
          failure.code(),
          absl::StrCat(failure.message(), "; the streams did not come to rest within ",
                       absl::FormatDuration(options.grace), " after that"));
    }
    polling.pause();
  }
}

}  // namespace stretto
