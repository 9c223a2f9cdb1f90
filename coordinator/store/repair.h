// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes a new database of all records of a damaged one that are whole.

#include <cstdint>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stretto::coordinator {

struct RepairReport {
  std::string damage;  // what was found; empty if the database is whole
  // Where the damaged database is now. If nothing was damaged: that of an interrupted repair, which
  // this one completed; empty if there was none, and nothing was changed.
  std::string aside;
  std::set<std::string> kept_jobs, kept_workers;
  std::set<std::string> lost_jobs, lost_workers;
  // Records that lost transactions of the log changed or deleted, so that they are older than they
  // were.
  std::set<std::string> older;
  bool lost_transactions = false;
  // Whether all names of lost records are known.
  bool names_known = true;
  bool lost_cluster_id = false;

  bool lost_any() const {
    return !lost_jobs.empty() || !lost_workers.empty() || lost_transactions || !names_known ||
           lost_cluster_id;
  }
  // Lines for a person.
  std::string Text() const;
};

// Repairs the database at `path` if it is damaged. A record is kept if and only if its checksum is
// right. Epochs continue after any that the lost records may have had. The damaged files are kept
// aside. A crash leaves either the damaged database or the repaired one, once OpenSqliteStore or
// this has completed the replacement.
// Errors: NotFound (no database), FailedPrecondition (open elsewhere, or of another schema version,
// of which the older ones have no checksums), DataLoss (not one whole record), ResourceExhausted,
// Unavailable.
absl::StatusOr<RepairReport> RepairSqliteStore(const std::string& path);

}  // namespace stretto::coordinator
