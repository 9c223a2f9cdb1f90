// SPDX-License-Identifier: Apache-2.0
#pragma once
// Waiting for a device without hanging on a peer that died.

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "worker/comm/device_communicator.h"
#include "worker/comm/polling.h"

namespace stretto {

// Whether the awaited work is done, for example by cudaEventQuery. Must not block.
using DeviceDone = std::function<absl::StatusOr<bool>()>;

struct DeviceWaitOptions {
  absl::Duration timeout = absl::Minutes(2);
  // After a failure, for how long the streams may take to come to rest.
  absl::Duration grace = absl::Seconds(10);
  Polling polling = {};
};

// Returns once `done` is true and no communicator reports an error. Called from the thread that
// owns the communicators; where graphs hold their collectives, `done` asks them instead (see
// DeviceCommunicator::Poll). On a failure it aborts every one of them, so that the streams come to
// rest, waits for that (or the grace) and returns what failed first:
//   the error of a communicator or of `done`
//   DeadlineExceeded  not done in time
// The message says so when the streams did not come to rest: their memory must then not be touched.
absl::Status AwaitDevice(absl::Span<DeviceCommunicator* const> communicators,
                         const DeviceDone& done, const DeviceWaitOptions& options = {});

}  // namespace stretto
