// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the commands of a user find the certificates of his own `stretto up`: a file for each port
// that it serves names their folder, and is locked while it runs. A file that nobody has locked is
// left from a cluster that has ended, and means nothing. Files of others are never looked at.

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "proto/base/files.h"

namespace stretto::cli {

// The state folder of this user: $XDG_STATE_HOME/stretto, where that is ~/.local/state if unset.
// `variable` returns the value of an environment variable; empty if unset.
std::string UserStateDir(const std::function<std::string(const std::string&)>& variable);

// The user's certificate and key in the folder of certificates, without ".crt" and ".key".
inline constexpr char kUserOfUp[] = "user-admin";

// Names `certificates` as the folder of the cluster at `port` of this machine, until the descriptor
// is closed. Errors: those of files.
absl::StatusOr<FileDescriptor> AnnounceLocalCluster(const std::string& user_state_dir, int port,
                                                    const std::string& certificates);

// Removes what AnnounceLocalCluster has written. Call it before the descriptor is closed.
void WithdrawLocalCluster(const std::string& user_state_dir, int port);

// Returns the folder of certificates of the cluster that runs at `port`; empty if none does, or
// none of this user.
std::string FindLocalCluster(const std::string& user_state_dir, int port);

}  // namespace stretto::cli
