// SPDX-License-Identifier: Apache-2.0
#pragma once
// The user that trainers run as, and the folders of a daemon that it must be able to use.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/base/files.h"
#include "worker/daemon/rights/rights.h"

namespace stretto::daemon {

// Finds a user by name, "stretto", or by numbers, "10001" or "10001:10001", which need not be in
// the system's table of users. Without a group it has that of the table, or the one of its own
// number. Errors: NOT_FOUND (no such user), INVALID_ARGUMENT (not such a text).
absl::StatusOr<TrainerUser> FindUser(const std::string& text);

// A file or folder, and what a trainer does with it.
struct Need {
  std::string flag;  // "--data-root", for messages
  std::string path;
  int access = 0;  // R_OK, W_OK, X_OK together
};

// Whether a process of that user can do all of it, asked of the kernel by one. Errors:
// PERMISSION_DENIED (names the flag, the path and the user); UNAVAILABLE (this process cannot
// become that user).
absl::Status CheckNeeds(const TrainerUser& user, const std::vector<Need>& needs);

// Gives a file or folder to the user. Errors: those of ErrnoStatus.
absl::Status GiveTo(const TrainerUser& user, const FileDescriptor& file, const std::string& path);

// Prepares the state folder of a daemon that runs as another user than its trainers: they may enter
// it and `runs`, read `data`, and own `tuning`, `inspection` and `checkpoints` with all that is in
// them. What the daemon itself keeps there stays its own. Idempotent. Errors: those of ErrnoStatus.
absl::Status ShareStateFolder(const TrainerUser& user, const std::string& state_dir);

// Lets trainers of another user, if they are, connect to a socket in that folder. Errors: those of
// ErrnoStatus.
absl::Status ShareSocket(const TrainerRights& rights, const std::string& path);

}  // namespace stretto::daemon
