// SPDX-License-Identifier: Apache-2.0
#pragma once
// A copy of the coordinator's database, taken while it is in use.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stretto::coordinator {

struct BackupReport {
  int64_t jobs = 0, workers = 0, bytes = 0;
};

// Copies the database at `path`, as of one instant between two commits, to the new file `copy`,
// which gets its name once it is whole: read again, checked and on disk. A coordinator may write
// meanwhile and does not wait for it. It has locked the file `lock` with flock. If nobody has, the
// log is checked as at a start, and `lock` is shared until it has been read. The database, its log
// and the schema version stay as they are. Errors: NotFound (no database, no folder), AlreadyExists
// (`copy`; it is left as it is), DataLoss (the database is damaged), FailedPrecondition (of a newer
// version, or locked), ResourceExhausted, Unavailable.
absl::StatusOr<BackupReport> BackUpSqliteStore(const std::string& path, const std::string& copy,
                                               const std::string& lock);

}  // namespace stretto::coordinator
