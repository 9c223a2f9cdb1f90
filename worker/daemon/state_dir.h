// SPDX-License-Identifier: Apache-2.0
#pragma once
// The daemon's folder on this node, owned by one process at a time.

#include <string>

#include "absl/status/statusor.h"
#include "proto/base/files.h"

namespace stretto::daemon {

// Makes the folder (mode 0700) when missing and locks it. The lock goes with the descriptor, also
// when the process dies. ALREADY_EXISTS: another process holds it; the message names its pid.
absl::StatusOr<FileDescriptor> LockStateDir(const std::string& state_dir);

}  // namespace stretto::daemon
