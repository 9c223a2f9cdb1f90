// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks the daemon's options and fills in what was left out.

#include <string>

#include "absl/status/status.h"
#include "worker/daemon/daemon.h"

namespace stretto::daemon {

// Makes paths absolute, fills defaults and creates the default folders.
// INVALID_ARGUMENT, NOT_FOUND or PERMISSION_DENIED: as Daemon::Start, naming the flag.
absl::Status CompleteOptions(DaemonOptions* options);

// Where trainers reach the daemon.
std::string SocketPath(const DaemonOptions& options);

}  // namespace stretto::daemon
