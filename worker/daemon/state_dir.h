// SPDX-License-Identifier: Apache-2.0
#pragma once
// The daemon's folder on this node, owned by one process at a time.

#include <string>

#include "absl/status/statusor.h"
#include "proto/base/files.h"
#include "worker/daemon/session/registration.h"

namespace stretto::daemon {

// Creates the folder (mode 0700) if it is missing, and locks it. The lock lasts as long as the
// descriptor and is released when the process dies. Errors: ALREADY_EXISTS (another process has the
// lock; the message names its pid).
absl::StatusOr<FileDescriptor> LockStateDir(const std::string& state_dir);

// The cluster that this worker belongs to is in the file STATE/cluster.
// Errors: DATA_LOSS (the file is damaged; names it), those of reading.
absl::StatusOr<Membership> ReadMembership(const std::string& state_dir);
absl::Status WriteMembership(const std::string& state_dir, const Membership& membership);

}  // namespace stretto::daemon
