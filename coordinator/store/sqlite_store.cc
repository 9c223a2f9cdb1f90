// SPDX-License-Identifier: Apache-2.0

// Jobs and workers as rows: fields that are searched or large have columns of their own, and the
// rest is one JSON body (record_codec.h). A commit is one transaction, so records are stored
// together or not at all. The next transaction begins right after it: other processes can read the
// database, as a backup does, but none can write. The database is read and checked as a whole when
// it is opened (schema.h).

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/store/database_files.h"
#include "coordinator/store/job_store.h"
#include "coordinator/store/record_codec.h"
#include "coordinator/store/record_columns.h"
#include "coordinator/store/schema.h"
#include "coordinator/store/sqlite_database.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"

namespace stretto::coordinator {
namespace {

constexpr char kPutJob[] =
    "INSERT INTO jobs VALUES "
    "(record_checksum('jobs', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10), "
    "?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (id) DO UPDATE SET "
    "checksum = excluded.checksum, uid = ?2, number = ?3, state = ?4, epoch = ?5, "
    "create_time_ns = ?6, spec = ?7, fingerprint = ?8, summary = ?9, body = ?10";
constexpr char kPutWorker[] =
    "INSERT INTO workers VALUES (record_checksum('workers', ?1, ?2), ?1, ?2) ON CONFLICT (id) DO "
    "UPDATE SET checksum = excluded.checksum, body = ?2";

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
    RETURN_IF_ERROR(cluster.Step().status());
    snapshot.cluster_id = cluster.Text(0);
    return snapshot;
  }

  absl::Status Commit(const std::vector<Record>& records) override {
    RETURN_IF_ERROR(Hold());
    absl::Status done;
    for (const Record& record : records) {
      done = std::visit([this](const auto& r) { return Put(r); }, record);
      if (!done.ok()) break;
    }
    if (done.ok()) done = database_->Run("COMMIT");
    if (!done.ok()) database_->RollBack();
    // The next commit tries again.
    Hold().IgnoreError();
    return done;
  }

  // Takes the lock that a writer needs, which others then wait for in vain. They can still read.
  absl::Status Hold() {
    return database_->InTransaction() ? absl::OkStatus() : database_->Run("BEGIN IMMEDIATE");
  }

 private:
  absl::Status Put(const JobRecord& job) {
    ASSIGN_OR_RETURN(SqliteStatement put, database_->Prepare(kPutJob));
    const Columns columns = ColumnsOf(job);
    put.Bind(columns);
    const absl::Status done = put.Step().status();
    if (done.code() != absl::StatusCode::kAlreadyExists) return done;
    return absl::AlreadyExistsError(absl::StrCat("job \"", job.id, "\" (uid ", job.uid, ", number ",
                                                 job.number,
                                                 ") repeats a stored job's uid or number"));
  }

  absl::Status Put(const WorkerRecord& worker) {
    ASSIGN_OR_RETURN(SqliteStatement put, database_->Prepare(kPutWorker));
    const Columns columns = ColumnsOf(worker);
    put.Bind(columns);
    return put.Step().status();
  }

  absl::Status Put(const EpochRecord& record) {
    ASSIGN_OR_RETURN(const int64_t last, database_->Number("SELECT last FROM epoch"));
    if (record.last.value() < last) {
      return absl::InvalidArgumentError(
          absl::StrCat("epoch ", record.last.value(), " is lower than the stored one, ", last));
    }
    ASSIGN_OR_RETURN(SqliteStatement put, database_->Prepare("UPDATE epoch SET checksum = "
                                                             "record_checksum('epoch', ?1), "
                                                             "last = ?1"));
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

// Creates the database if there is none. It gets its name only when it is whole, so an empty file
// of that name is one that has lost its contents.
absl::Status CreateIfMissing(const std::string& path, const std::string& cluster_id) {
  struct stat info;
  if (::stat(path.c_str(), &info) == 0) {
    if (info.st_size > 0) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat("job store ", path,
                     ": found 0 bytes, expected a database: its contents are "
                     "lost. Restore it from a copy, or remove it to begin a new cluster"));
  }
  if (::access((path + "-wal").c_str(), F_OK) == 0) {
    return absl::DataLossError(absl::StrCat("job store ", path, ": found its log ", path,
                                            "-wal without the database. Restore it from a copy, "
                                            "or remove the log to begin a new cluster"));
  }
  const std::string fresh = path + ".new";
  RETURN_IF_ERROR(CreateDatabase(fresh, cluster_id));
  if (std::rename(fresh.c_str(), path.c_str()) != 0) {
    return ErrnoStatus(errno, absl::StrCat("rename ", fresh, " to ", path));
  }
  return SyncPath(FolderOf(path));
}

}  // namespace

absl::StatusOr<std::unique_ptr<JobStore>> OpenSqliteStore(const std::string& path,
                                                          const SqliteOptions& options) {
  RETURN_IF_ERROR(CheckFolder(path));
  RETURN_IF_ERROR(FinishReplacement(path).status());
  RETURN_IF_ERROR(CreateIfMissing(path, options.cluster_id));
  absl::StatusOr<std::unique_ptr<SqliteDatabase>> database = OpenWhole(path);
  if (absl::IsDataLoss(database.status())) {
    return absl::DataLossError(absl::StrCat(database.status().message(),
                                            ". Restore a copy of it, or keep what is whole with "
                                            "stretto-coordinator --repair"));
  }
  RETURN_IF_ERROR(database.status());
  RETURN_IF_ERROR(Migrate(**database));
  if (options.max_pages > 0) {
    RETURN_IF_ERROR((*database)->Run(absl::StrCat("PRAGMA max_page_count = ", options.max_pages)));
  }
  auto store = std::make_unique<SqliteStore>(*std::move(database));
  RETURN_IF_ERROR(store->Hold());
  return store;
}

}  // namespace stretto::coordinator
