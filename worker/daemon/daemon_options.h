// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks the daemon's options and fills in defaults.

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/daemon/daemon.h"

namespace stretto::daemon {

// Makes paths absolute, fills in defaults and creates the default folders. Errors:
// INVALID_ARGUMENT, NOT_FOUND or PERMISSION_DENIED, as Daemon::Start, naming the flag.
absl::Status CompleteOptions(DaemonOptions* options);

// The rights of the trainers of a daemon with complete options. Errors: those of PrepareRights.
absl::StatusOr<PreparedRights> RightsOf(const DaemonOptions& options, size_t slots);

// The path of the socket on which the daemon serves trainers.
std::string SocketPath(const DaemonOptions& options);

}  // namespace stretto::daemon
