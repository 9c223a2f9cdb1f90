// SPDX-License-Identifier: Apache-2.0

// The schema is a list of migrations, applied in order from the version of the file. Damage is
// looked for in the order of what it would hide: the log before SQLite applies it, the version, the
// structure of the pages, and the checksums of the records.

#include "coordinator/store/schema.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/store/page_image.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"

namespace stretto::coordinator {
namespace {

// Entry i migrates the database from user_version i to i + 1. Add at the end; never change an
// entry. One that adds a column also writes the checksums of that table again.
constexpr const char* kMigrations[] = {
    R"(CREATE TABLE jobs (
         id TEXT PRIMARY KEY,
         uid TEXT NOT NULL UNIQUE,
         number INTEGER NOT NULL UNIQUE,
         state INTEGER NOT NULL,
         epoch INTEGER NOT NULL,
         create_time_ns INTEGER NOT NULL,
         spec BLOB NOT NULL,
         fingerprint BLOB NOT NULL,
         summary BLOB NOT NULL,
         body TEXT NOT NULL) STRICT;
       CREATE TABLE workers (id TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT;
       CREATE TABLE epoch (only INTEGER PRIMARY KEY CHECK (only = 1), last INTEGER NOT NULL) STRICT;
       INSERT INTO epoch VALUES (1, 0);)",
    // Also gives an id to the cluster of a release that had none.
    R"(CREATE TABLE cluster (only INTEGER PRIMARY KEY CHECK (only = 1), id TEXT NOT NULL) STRICT;
       INSERT INTO cluster VALUES (1, lower(hex(randomblob(16))));)",
    // Every record gets a checksum.
    R"(ALTER TABLE jobs RENAME TO jobs_2;
       CREATE TABLE jobs (
         checksum INTEGER NOT NULL,
         id TEXT PRIMARY KEY,
         uid TEXT NOT NULL UNIQUE,
         number INTEGER NOT NULL UNIQUE,
         state INTEGER NOT NULL,
         epoch INTEGER NOT NULL,
         create_time_ns INTEGER NOT NULL,
         spec BLOB NOT NULL,
         fingerprint BLOB NOT NULL,
         summary BLOB NOT NULL,
         body TEXT NOT NULL) STRICT;
       INSERT INTO jobs SELECT record_checksum('jobs', id, uid, number, state, epoch,
         create_time_ns, spec, fingerprint, summary, body), * FROM jobs_2;
       DROP TABLE jobs_2;
       ALTER TABLE workers RENAME TO workers_2;
       CREATE TABLE workers (
         checksum INTEGER NOT NULL, id TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT;
       INSERT INTO workers SELECT record_checksum('workers', id, body), * FROM workers_2;
       DROP TABLE workers_2;
       ALTER TABLE epoch RENAME TO epoch_2;
       CREATE TABLE epoch (checksum INTEGER NOT NULL, last INTEGER NOT NULL) STRICT;
       INSERT INTO epoch SELECT record_checksum('epoch', last), last FROM epoch_2;
       DROP TABLE epoch_2;
       ALTER TABLE cluster RENAME TO cluster_2;
       CREATE TABLE cluster (checksum INTEGER NOT NULL, id TEXT NOT NULL) STRICT;
       INSERT INTO cluster SELECT record_checksum('cluster', id), id FROM cluster_2;
       DROP TABLE cluster_2;)",
};
constexpr int64_t kVersion = std::size(kMigrations);
constexpr int64_t kFirstWithChecksums = 3;

absl::Status MigrateFrom(int64_t version, SqliteDatabase& database) {
  RETURN_IF_ERROR(database.Run(kMigrations[version]));
  return database.Run(absl::StrCat("PRAGMA user_version = ", version + 1,
                                   "; PRAGMA application_id = ", ApplicationId(version + 1)));
}

absl::Status Damaged(const SqliteDatabase& database, absl::string_view found) {
  return absl::DataLossError(absl::StrCat("job store ", database.path(), " is damaged: ", found));
}

absl::Status CheckRecords(const StoredTable& table, SqliteDatabase& database) {
  ASSIGN_OR_RETURN(
      SqliteStatement damaged,
      database.Prepare(absl::StrCat("SELECT rowid, checksum, record_checksum('", table.name, "', ",
                                    table.columns, ") AS found FROM ", table.name,
                                    " WHERE checksum IS NOT found LIMIT 1")));
  ASSIGN_OR_RETURN(const bool row, damaged.Step());
  if (!row) return absl::OkStatus();
  return Damaged(database, absl::StrCat("record ", damaged.Integer(0), " of table ", table.name,
                                        ": found checksum ", damaged.Integer(2), ", expected ",
                                        damaged.Integer(1)));
}

}  // namespace

int64_t SchemaVersion() { return kVersion; }

int64_t ApplicationId(int64_t version) {
  if (version < kFirstWithChecksums) return 0;
  return static_cast<int32_t>(Crc32c(absl::StrCat("stretto coordinator schema ", version)));
}

absl::Status CheckVersion(SqliteDatabase& database) {
  ASSIGN_OR_RETURN(const int64_t version, database.Number("PRAGMA user_version"));
  ASSIGN_OR_RETURN(const int64_t id, database.Number("PRAGMA application_id"));
  if (id != ApplicationId(version)) {
    return Damaged(database,
                   absl::StrCat("its header has schema version ", version, " and application id ",
                                id, ", expected application id ", ApplicationId(version)));
  }
  if (version > kVersion) {
    return absl::FailedPreconditionError(absl::StrCat(database.path(), " has schema version ",
                                                      version, "; this build knows versions up to ",
                                                      kVersion, ". Use a newer coordinator"));
  }
  return absl::OkStatus();
}

absl::Status Migrate(SqliteDatabase& database) {
  RETURN_IF_ERROR(CheckVersion(database));
  ASSIGN_OR_RETURN(const int64_t version, database.Number("PRAGMA user_version"));
  for (int64_t i = version; i < kVersion; ++i) {
    RETURN_IF_ERROR(database.Run("BEGIN EXCLUSIVE"));
    absl::Status done = MigrateFrom(i, database);
    if (done.ok()) done = database.Run("COMMIT");
    if (!done.ok()) {
      database.RollBack();
      return done;
    }
  }
  return absl::OkStatus();
}

absl::Status CheckIntegrity(SqliteDatabase& database) {
  ASSIGN_OR_RETURN(SqliteStatement check, database.Prepare("PRAGMA integrity_check(1)"));
  RETURN_IF_ERROR(check.Step().status());
  if (const std::string found = check.Text(0); found != "ok") return Damaged(database, found);
  ASSIGN_OR_RETURN(const int64_t version, database.Number("PRAGMA user_version"));
  if (version < kFirstWithChecksums) return absl::OkStatus();
  for (const StoredTable& table : kTables) RETURN_IF_ERROR(CheckRecords(table, database));
  for (const char* single : {"epoch", "cluster"}) {
    ASSIGN_OR_RETURN(const int64_t rows,
                     database.Number(absl::StrCat("SELECT count(*) FROM ", single)));
    if (rows == 1) continue;
    return Damaged(database,
                   absl::StrCat("table ", single, ": found ", rows, " records, expected 1"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SqliteDatabase>> OpenForWriting(const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> database, SqliteDatabase::Open(path));
  // Pages of this size are what repair reads. Deleted records are overwritten, so that it finds
  // none of them.
  RETURN_IF_ERROR(database->Run(absl::StrCat("PRAGMA page_size = ", kPageBytes)));
  RETURN_IF_ERROR(database->Run("PRAGMA secure_delete = ON"));
  RETURN_IF_ERROR(database->Run("PRAGMA journal_mode = WAL"));
  RETURN_IF_ERROR(database->Run("PRAGMA synchronous = FULL"));
  return database;
}

absl::StatusOr<std::unique_ptr<SqliteDatabase>> OpenWhole(const std::string& path) {
  RETURN_IF_ERROR(CheckLog(path));
  ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> database, OpenForWriting(path));
  database->KeepLog(true);  // damaged files stay as they are
  RETURN_IF_ERROR(CheckVersion(*database));
  RETURN_IF_ERROR(CheckIntegrity(*database));
  database->KeepLog(false);
  return database;
}

}  // namespace stretto::coordinator
