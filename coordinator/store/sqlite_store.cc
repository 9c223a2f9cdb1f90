// SPDX-License-Identifier: Apache-2.0

// Jobs and workers as rows: fields that are searched or large have columns of their own, and the
// rest is one JSON body (record_codec.h). A commit is one transaction, so records are stored
// together or not at all. The schema is a list of migrations, applied in order from the version of
// the file.

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/store/job_store.h"
#include "coordinator/store/record_codec.h"
#include "coordinator/store/sqlite_database.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"

namespace stretto::coordinator {
namespace {

// Entry i migrates the database from user_version i to i + 1. Add at the end; never change an
// entry.
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
};
constexpr int64_t kVersion = std::size(kMigrations);

constexpr char kPutJob[] =
    "INSERT INTO jobs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (id) DO UPDATE "
    "SET "
    "uid = ?2, number = ?3, state = ?4, epoch = ?5, create_time_ns = ?6, spec = ?7, fingerprint = "
    "?8, "
    "summary = ?9, body = ?10";

absl::Status Migrate(SqliteDatabase& database) {
  ASSIGN_OR_RETURN(const int64_t version, database.Number("PRAGMA user_version"));
  if (version > kVersion) {
    return absl::FailedPreconditionError(absl::StrCat(database.path(), " has schema version ",
                                                      version, "; this build knows versions up to ",
                                                      kVersion, ". Use a newer coordinator"));
  }
  for (int64_t i = version; i < kVersion; ++i) {
    RETURN_IF_ERROR(database.Run("BEGIN EXCLUSIVE"));
    absl::Status done = database.Run(kMigrations[i]);
    if (done.ok()) done = database.Run(absl::StrCat("PRAGMA user_version = ", i + 1));
    if (done.ok()) done = database.Run("COMMIT");
    if (!done.ok()) {
      database.RollBack();
      return done;
    }
  }
  return absl::OkStatus();
}

class SqliteStore final : public JobStore {
 public:
  explicit SqliteStore(std::unique_ptr<SqliteDatabase> database) : database_(std::move(database)) {}

  absl::StatusOr<Snapshot> Load() override {
    Snapshot snapshot;
    ASSIGN_OR_RETURN(
        SqliteStatement jobs,
        database_->Prepare("SELECT id, uid, number, spec, fingerprint, summary, body FROM jobs "
                           "ORDER BY number"));
    for (;;) {
      ASSIGN_OR_RETURN(const bool row, jobs.Step());
      if (!row) break;
      JobRecord& job = snapshot.jobs.emplace_back();
      job.id = jobs.Text(0);
      job.uid = jobs.Text(1);
      job.number = jobs.Integer(2);
      job.spec = jobs.Text(3);
      job.fingerprint = jobs.Text(4);
      job.summary = jobs.Text(5);
      RETURN_IF_ERROR(DecodeJobBody(jobs.Text(6), &job));
    }
    ASSIGN_OR_RETURN(SqliteStatement workers,
                     database_->Prepare("SELECT id, body FROM workers ORDER BY id"));
    for (;;) {
      ASSIGN_OR_RETURN(const bool row, workers.Step());
      if (!row) break;
      WorkerRecord& worker = snapshot.workers.emplace_back();
      worker.id = workers.Text(0);
      RETURN_IF_ERROR(DecodeWorkerBody(workers.Text(1), &worker));
    }
    ASSIGN_OR_RETURN(const int64_t last, database_->Number("SELECT last FROM epoch"));
    snapshot.epoch.last = Epoch(last);
    ASSIGN_OR_RETURN(SqliteStatement cluster, database_->Prepare("SELECT id FROM cluster"));
    ASSIGN_OR_RETURN(const bool row, cluster.Step());
    if (!row) {
      return absl::DataLossError(
          absl::StrCat("job store ", database_->path(),
                       ": table cluster: found no row, expected the cluster's id"));
    }
    snapshot.cluster_id = cluster.Text(0);
    return snapshot;
  }

  absl::Status Commit(const std::vector<Record>& records) override {
    RETURN_IF_ERROR(database_->Run("BEGIN IMMEDIATE"));
    absl::Status done;
    for (const Record& record : records) {
      done = std::visit([this](const auto& r) { return Put(r); }, record);
      if (!done.ok()) break;
    }
    if (done.ok()) done = database_->Run("COMMIT");
    if (!done.ok()) database_->RollBack();
    return done;
  }

 private:
  absl::Status Put(const JobRecord& job) {
    ASSIGN_OR_RETURN(SqliteStatement put, database_->Prepare(kPutJob));
    put.BindText(1, job.id);
    put.BindText(2, job.uid);
    put.BindInteger(3, job.number);
    put.BindInteger(4, static_cast<int64_t>(job.state));
    put.BindInteger(5, job.epoch.value());
    put.BindInteger(6, absl::ToUnixNanos(job.create_time));
    put.BindBlob(7, job.spec);
    put.BindBlob(8, job.fingerprint);
    put.BindBlob(9, job.summary);
    const std::string body = EncodeJobBody(job);
    put.BindText(10, body);
    const absl::Status done = put.Step().status();
    if (done.code() != absl::StatusCode::kAlreadyExists) return done;
    return absl::AlreadyExistsError(absl::StrCat("job \"", job.id, "\" (uid ", job.uid, ", number ",
                                                 job.number,
                                                 ") repeats a stored job's uid or number"));
  }

  absl::Status Put(const WorkerRecord& worker) {
    ASSIGN_OR_RETURN(SqliteStatement put,
                     database_->Prepare("INSERT INTO workers VALUES (?1, ?2) ON CONFLICT (id) DO "
                                        "UPDATE SET body = ?2"));
    const std::string body = EncodeWorkerBody(worker);
    put.BindText(1, worker.id);
    put.BindText(2, body);
    return put.Step().status();
  }

  absl::Status Put(const EpochRecord& record) {
    ASSIGN_OR_RETURN(const int64_t last, database_->Number("SELECT last FROM epoch"));
    if (record.last.value() < last) {
      return absl::InvalidArgumentError(
          absl::StrCat("epoch ", record.last.value(), " is lower than the stored one, ", last));
    }
    ASSIGN_OR_RETURN(SqliteStatement put, database_->Prepare("UPDATE epoch SET last = ?1"));
    put.BindInteger(1, record.last.value());
    return put.Step().status();
  }

  absl::Status Put(const JobErased& erased) {
    ASSIGN_OR_RETURN(SqliteStatement put, database_->Prepare("DELETE FROM jobs WHERE id = ?1"));
    put.BindText(1, erased.id);
    return put.Step().status();
  }

  absl::Status Put(const WorkerErased& erased) {
    ASSIGN_OR_RETURN(SqliteStatement put, database_->Prepare("DELETE FROM workers WHERE id = ?1"));
    put.BindText(1, erased.id);
    return put.Step().status();
  }

  std::unique_ptr<SqliteDatabase> database_;
};

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

absl::Status CheckFolder(const std::string& path) {
  const std::string folder = FolderOf(path);
  struct stat info;
  if (stat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("job store ", path, ": folder ", folder, " does not exist"));
}

absl::StatusOr<std::unique_ptr<SqliteDatabase>> OpenMigrated(const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> database, SqliteDatabase::Open(path));
  // EXCLUSIVE must come before WAL: the lock is then held until the file is closed, and WAL needs
  // no shared memory.
  RETURN_IF_ERROR(database->Run("PRAGMA locking_mode = EXCLUSIVE"));
  RETURN_IF_ERROR(database->Run("PRAGMA journal_mode = WAL"));
  RETURN_IF_ERROR(database->Run("PRAGMA synchronous = FULL"));
  RETURN_IF_ERROR(Migrate(*database));
  return database;
}

// Creates the database if there is none. It gets its name only when it is whole, so an empty file
// of that name is one that has lost its contents.
absl::Status CreateIfMissing(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) == 0) {
    if (info.st_size > 0) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat("job store ", path,
                     ": found 0 bytes, expected a database: its contents are "
                     "lost. Restore it from a copy, or remove it to begin a new cluster"));
  }
  const std::string fresh = path + ".new";
  for (const char* left : {"", "-wal", "-shm"}) ::unlink(absl::StrCat(fresh, left).c_str());
  RETURN_IF_ERROR(OpenMigrated(fresh).status());  // and closes it
  if (std::rename(fresh.c_str(), path.c_str()) != 0) {
    return ErrnoStatus(errno, absl::StrCat("rename ", fresh, " to ", path));
  }
  return SyncPath(FolderOf(path));
}

}  // namespace

absl::StatusOr<std::unique_ptr<JobStore>> OpenSqliteStore(const std::string& path,
                                                          const SqliteOptions& options) {
  RETURN_IF_ERROR(CheckFolder(path));
  RETURN_IF_ERROR(CreateIfMissing(path));
  ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> database, OpenMigrated(path));
  ASSIGN_OR_RETURN(SqliteStatement check, database->Prepare("PRAGMA quick_check(1)"));
  RETURN_IF_ERROR(check.Step().status());
  if (const std::string found = check.Text(0); found != "ok") {
    return absl::DataLossError(absl::StrCat("job store ", path, " is damaged: ", found));
  }
  if (options.max_pages > 0) {
    RETURN_IF_ERROR(database->Run(absl::StrCat("PRAGMA max_page_count = ", options.max_pages)));
  }
  return std::make_unique<SqliteStore>(std::move(database));
}

}  // namespace stretto::coordinator
