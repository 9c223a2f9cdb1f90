// SPDX-License-Identifier: Apache-2.0
#pragma once
// A thin owner of an SQLite connection. Errors name the file. Internal to store/.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/store/record_checksum.h"

struct sqlite3;
struct sqlite3_stmt;

namespace stretto::coordinator {

class SqliteDatabase;

// A prepared statement. Valid as long as its database; bound text must stay valid until the last
// Step.
class SqliteStatement {
 public:
  SqliteStatement(const SqliteDatabase& database, sqlite3_stmt* statement)
      : database_(&database), statement_(statement) {}
  SqliteStatement(SqliteStatement&& other) noexcept;
  SqliteStatement& operator=(SqliteStatement&&) = delete;
  ~SqliteStatement();

  // Indices start at 1.
  void BindInteger(int index, int64_t value);
  void BindText(int index, const std::string& value);
  void BindBlob(int index, const std::string& value);
  // Binds the first parameters, in order. A value that is NULL leaves its parameter NULL.
  void Bind(const std::vector<StoredValue>& values);

  // Returns true if there is a row and false when the statement is done.
  absl::StatusOr<bool> Step();

  // Columns of the row; numbers start at 0.
  int64_t Integer(int column) const;
  std::string Text(int column) const;  // text or blob

 private:
  const SqliteDatabase* database_;
  sqlite3_stmt* statement_;
};

class SqliteDatabase {
 public:
  enum class IfMissing { kCreate, kRefuse };
  // Statements may use record_checksum (record_checksum.h). They wait up to a second for a lock of
  // another process.
  static absl::StatusOr<std::unique_ptr<SqliteDatabase>> Open(
      const std::string& path, IfMissing if_missing = IfMissing::kCreate);
  ~SqliteDatabase();
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;

  const std::string& path() const { return path_; }

  // Whether the last one to close the database leaves its log as it is, instead of moving its pages
  // into the database.
  void KeepLog(bool keep);

  // Runs one or more statements and drops their rows.
  absl::Status Run(const std::string& sql);
  absl::StatusOr<SqliteStatement> Prepare(const std::string& sql);
  // Returns the first column of the first row.
  absl::StatusOr<int64_t> Number(const std::string& sql);
  bool InTransaction() const;
  // Rolls back the open transaction, if there is one.
  void RollBack();

  // Copies all of this database, as of one instant, over `to`. Other processes may write meanwhile.
  absl::Status CopyTo(SqliteDatabase& to);

  // Returns the status for an SQLite code: ResourceExhausted (disk full), DataLoss (damaged, not a
  // database), FailedPrecondition (open elsewhere), PermissionDenied, AlreadyExists (a constraint),
  // Unavailable (any other; of a failed call of the system with its reason).
  absl::Status Error(int code) const;

 private:
  SqliteDatabase(std::string path, sqlite3* handle) : path_(std::move(path)), handle_(handle) {}

  std::string path_;
  sqlite3* handle_;
};

}  // namespace stretto::coordinator
