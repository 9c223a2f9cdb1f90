// SPDX-License-Identifier: Apache-2.0
#pragma once
// A database as files: the database itself and, while it is open or after a crash, its log (-wal)
// and the index of that (-shm). Internal to store/.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stretto::coordinator {

// The folder of `path`, which ends with '/', or ".".
std::string FolderOf(const std::string& path);
// NotFound unless the folder of `path` exists.
absl::Status CheckFolder(const std::string& path);

// Creates an empty database of the newest schema, for this cluster, or for a new one if the id is
// empty. Replaces what is left of an earlier attempt.
absl::Status CreateDatabase(const std::string& path, const std::string& cluster_id = "");

// Puts the closed database `fresh`, in the same folder, in the place of `path`, which may be
// missing. The earlier one and its log stay as PATH.damaged-N. A crash leaves either all as it was,
// or a state that FinishReplacement completes. Errors: ResourceExhausted (`fresh` still has its
// log, because the pages did not fit into the file), Unavailable.
absl::Status ReplaceDatabase(const std::string& path, const std::string& fresh);
// Returns the name of the earlier one, or "" if there was none or nothing to do.
absl::StatusOr<std::string> FinishReplacement(const std::string& path);

}  // namespace stretto::coordinator
