// SPDX-License-Identifier: Apache-2.0

// SQLite's C interface with statuses instead of codes. Our own mistakes, such as an index that a
// statement does not have, end the process; all that a file or a disk can cause is a status.

#include "coordinator/store/sqlite_database.h"

#include <sqlite3.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/store/record_checksum.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"

namespace stretto::coordinator {
namespace {

constexpr int kLockWaitMs = 1000;
constexpr char kContinue[] = "jobs that run continue";

void ChecksumFunction(sqlite3_context* context, int count, sqlite3_value** values) {
  const auto bytes = [](sqlite3_value* value) {
    const auto* data = static_cast<const char*>(sqlite3_value_blob(value));
    return absl::string_view(data, sqlite3_value_bytes(value));
  };
  RecordChecksum checksum(bytes(values[0]));
  for (int i = 1; i < count; ++i) {
    switch (sqlite3_value_type(values[i])) {
      case SQLITE_NULL:
        checksum.AddNull();
        break;
      case SQLITE_INTEGER:
        checksum.AddInteger(sqlite3_value_int64(values[i]));
        break;
      case SQLITE_TEXT:
        checksum.AddText(bytes(values[i]));
        break;
      default:  // a blob; no table has real numbers
        checksum.AddBlob(bytes(values[i]));
    }
  }
  sqlite3_result_int64(context, checksum.value());
}

// What the system said to the last call that failed, on the log or else on the database; 0:
// unknown.
// sqlite3_system_errno has the error of a later call, if it has one.
int LastErrno(sqlite3* handle) {
  for (const int which : {SQLITE_FCNTL_JOURNAL_POINTER, SQLITE_FCNTL_FILE_POINTER}) {
    sqlite3_file* file = nullptr;
    int error = 0;
    if (sqlite3_file_control(handle, "main", which, &file) == SQLITE_OK && file != nullptr &&
        file->pMethods != nullptr) {
      file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &error);
    }
    if (error != 0) return error;
  }
  return 0;
}

}  // namespace

SqliteStatement::SqliteStatement(SqliteStatement&& other) noexcept
    : database_(other.database_), statement_(std::exchange(other.statement_, nullptr)) {}

SqliteStatement::~SqliteStatement() { sqlite3_finalize(statement_); }

void SqliteStatement::BindInteger(int index, int64_t value) {
  STRETTO_CHECK(sqlite3_bind_int64(statement_, index, value) == SQLITE_OK);
}

void SqliteStatement::BindText(int index, const std::string& value) {
  STRETTO_CHECK(sqlite3_bind_text64(statement_, index, value.data(), value.size(), SQLITE_STATIC,
                                    SQLITE_UTF8) == SQLITE_OK);
}

void SqliteStatement::BindBlob(int index, const std::string& value) {
  // Binds an empty blob, not NULL, for the empty string.
  STRETTO_CHECK(sqlite3_bind_blob64(statement_, index, value.data(), value.size(), SQLITE_STATIC) ==
                SQLITE_OK);
}

void SqliteStatement::Bind(const std::vector<StoredValue>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const int place = static_cast<int>(i) + 1;
    if (const auto* integer = std::get_if<int64_t>(&values[i])) {
      BindInteger(place, *integer);
    } else if (const auto* text = std::get_if<std::string>(&values[i])) {
      BindText(place, *text);
    } else if (const auto* blob = std::get_if<StoredBlob>(&values[i])) {
      BindBlob(place, blob->bytes);
    }
  }
}

absl::StatusOr<bool> SqliteStatement::Step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return database_->Error(code);
}

int64_t SqliteStatement::Integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}

std::string SqliteStatement::Text(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  const int bytes = sqlite3_column_bytes(statement_, column);
  return bytes == 0 ? "" : std::string(static_cast<const char*>(data), bytes);
}

absl::StatusOr<std::unique_ptr<SqliteDatabase>> SqliteDatabase::Open(const std::string& path,
                                                                     IfMissing if_missing) {
  sqlite3* handle = nullptr;
  const int create = if_missing == IfMissing::kCreate ? SQLITE_OPEN_CREATE : 0;
  const int code = sqlite3_open_v2(path.c_str(), &handle,
                                   SQLITE_OPEN_READWRITE | create | SQLITE_OPEN_EXRESCODE, nullptr);
  STRETTO_CHECK(handle != nullptr);  // null: out of memory
  std::unique_ptr<SqliteDatabase> database(new SqliteDatabase(path, handle));
  if (code != SQLITE_OK) return database->Error(code);
  sqlite3_busy_timeout(handle, kLockWaitMs);
  STRETTO_CHECK(sqlite3_create_function(handle, "record_checksum", -1,
                                        SQLITE_UTF8 | SQLITE_DETERMINISTIC, nullptr,
                                        ChecksumFunction, nullptr, nullptr) == SQLITE_OK);
  return database;
}

SqliteDatabase::~SqliteDatabase() { STRETTO_CHECK(sqlite3_close(handle_) == SQLITE_OK); }

absl::Status SqliteDatabase::Run(const std::string& sql) {
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code);
}

absl::StatusOr<SqliteStatement> SqliteDatabase::Prepare(const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  const int code =
      sqlite3_prepare_v2(handle_, sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  if (code != SQLITE_OK) return Error(code);
  return SqliteStatement(*this, statement);
}

absl::StatusOr<int64_t> SqliteDatabase::Number(const std::string& sql) {
  ASSIGN_OR_RETURN(SqliteStatement statement, Prepare(sql));
  ASSIGN_OR_RETURN(const bool row, statement.Step());
  if (!row) return absl::DataLossError(absl::StrCat("job store ", path_, ": no row from ", sql));
  return statement.Integer(0);
}

void SqliteDatabase::KeepLog(bool keep) {
  STRETTO_CHECK(sqlite3_db_config(handle_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep ? 1 : 0,
                                  nullptr) == SQLITE_OK);
}

bool SqliteDatabase::InTransaction() const { return sqlite3_get_autocommit(handle_) == 0; }

void SqliteDatabase::RollBack() {
  // A failed COMMIT may have rolled back by itself; then no transaction is open.
  if (InTransaction()) (void)Run("ROLLBACK");
}

absl::Status SqliteDatabase::CopyTo(SqliteDatabase& to) {
  sqlite3_backup* backup = sqlite3_backup_init(to.handle_, "main", handle_, "main");
  if (backup == nullptr) return to.Error(sqlite3_errcode(to.handle_));
  const int step = sqlite3_backup_step(backup, -1);
  const int finish = sqlite3_backup_finish(backup);
  if (finish != SQLITE_OK) return to.Error(finish);
  // Locked; the copy is not whole, which is no error of SQLite's.
  return step == SQLITE_DONE ? absl::OkStatus() : Error(step);
}

absl::Status SqliteDatabase::Error(int code) const {
  const std::string text = absl::StrCat("job store ", path_, ": ", sqlite3_errmsg(handle_));
  switch (code & 0xff) {
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(
          absl::StrCat(text, ". Nothing new is accepted until it has room; ", kContinue));
    case SQLITE_IOERR: {
      const int error = LastErrno(handle_);
      const std::string why = error == 0 ? text : absl::StrCat(text, ": ", std::strerror(error));
      const bool writing =
          code == SQLITE_IOERR_WRITE || code == SQLITE_IOERR_FSYNC || code == SQLITE_IOERR_TRUNCATE;
      if (!writing) return absl::UnavailableError(why);
      return absl::UnavailableError(
          absl::StrCat(why, ". Nothing new is accepted until it can be written; ", kContinue));
    }
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return absl::DataLossError(text);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::FailedPreconditionError(
          absl::StrCat(text, "; expected no other process to have it open"));
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
      return absl::PermissionDeniedError(text);
    case SQLITE_CONSTRAINT:
      return absl::AlreadyExistsError(text);
    default:  // any other code of SQLite
      return absl::UnavailableError(text);
  }
}

}  // namespace stretto::coordinator
