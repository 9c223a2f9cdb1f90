// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tables of the coordinator's database, the versions of their schema, and what makes a database
// whole. Internal to store/.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/store/sqlite_database.h"

namespace stretto::coordinator {

// A table whose records outlive damage to the file around them (repair.h). Its first column is
// `checksum`, the record_checksum of `columns`, which are all others in their order.
struct StoredTable {
  const char* name;
  const char* columns;
};
inline constexpr StoredTable kTables[] = {
    {"jobs", "id, uid, number, state, epoch, create_time_ns, spec, fingerprint, summary, body"},
    {"workers", "id, body"},
    {"epoch", "last"},
    {"cluster", "id"},
};

// The version that this build writes.
int64_t SchemaVersion();

// What the header of a database of `version` has as its application_id. A header that has been
// damaged is so told from that of a newer release. 0 for versions without it.
int64_t ApplicationId(int64_t version);

// Errors: FailedPrecondition (newer than SchemaVersion(); names both), DataLoss (version and
// application_id do not belong together).
absl::Status CheckVersion(SqliteDatabase& database);

// Brings a database of any older version to SchemaVersion(), one transaction for each version.
// Errors: those of CheckVersion, ResourceExhausted, Unavailable.
absl::Status Migrate(SqliteDatabase& database);

// Reads all of the database: SQLite's own integrity check and, from the version on that has them,
// the checksums of all records. Errors: DataLoss, which names the file and what was found.
absl::Status CheckIntegrity(SqliteDatabase& database);

// Opens the file for writing, in WAL mode with synchronous=FULL; creates it if there is none.
// Errors: those of SqliteDatabase::Open.
absl::StatusOr<std::unique_ptr<SqliteDatabase>> OpenForWriting(const std::string& path);

// Opens a database that exists, of any version up to this build's, and checks all of it, its log
// included. Nobody else may write to it. Errors: DataLoss, those of CheckVersion and
// OpenForWriting.
absl::StatusOr<std::unique_ptr<SqliteDatabase>> OpenWhole(const std::string& path);

}  // namespace stretto::coordinator
