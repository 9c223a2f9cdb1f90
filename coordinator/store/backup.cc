// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/backup.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "coordinator/store/database_files.h"
#include "coordinator/store/page_image.h"
#include "coordinator/store/schema.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"

namespace stretto::coordinator {
namespace {

// A log in use changes while it is read; who uses it has checked it.
absl::Status CheckLogUnlessInUse(const std::string& path, const std::string& lock) {
  const FileDescriptor file(open(lock.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid() && errno != ENOENT) return ErrnoStatus(errno, absl::StrCat("open ", lock));
  if (file.valid() && flock(file.get(), LOCK_SH | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return absl::OkStatus();
    return ErrnoStatus(errno, absl::StrCat("lock ", lock));
  }
  return CheckLog(path);
}

absl::Status CopyDatabase(const std::string& path, const std::string& partial) {
  constexpr auto kRefuse = SqliteDatabase::IfMissing::kRefuse;
  ASSIGN_OR_RETURN(const auto from, SqliteDatabase::Open(path, kRefuse));
  from->KeepLog(true);  // as the last to close it, too
  RETURN_IF_ERROR(CheckVersion(*from));
  ASSIGN_OR_RETURN(const auto to, SqliteDatabase::Open(partial));
  return from->CopyTo(*to);
}

absl::StatusOr<BackupReport> CheckCopy(const std::string& partial) {
  ASSIGN_OR_RETURN(const auto copy, OpenWhole(partial));
  BackupReport report;
  ASSIGN_OR_RETURN(report.jobs, copy->Number("SELECT count(*) FROM jobs"));
  ASSIGN_OR_RETURN(report.workers, copy->Number("SELECT count(*) FROM workers"));
  return report;
}

absl::StatusOr<BackupReport> WriteCopy(const std::string& path, const std::string& partial,
                                       const std::string& copy) {
  RETURN_IF_ERROR(CopyDatabase(path, partial));
  ASSIGN_OR_RETURN(BackupReport report, CheckCopy(partial));  // and closes it, which ends its log
  RETURN_IF_ERROR(SyncPath(partial));
  struct stat info;
  if (stat(partial.c_str(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", partial));
  report.bytes = info.st_size;
  if (std::rename(partial.c_str(), copy.c_str()) != 0) {
    return ErrnoStatus(errno, absl::StrCat("rename ", partial, " to ", copy));
  }
  RETURN_IF_ERROR(SyncPath(FolderOf(copy)));
  return report;
}

}  // namespace

absl::StatusOr<BackupReport> BackUpSqliteStore(const std::string& path, const std::string& copy,
                                               const std::string& lock) {
  if (access(path.c_str(), F_OK) != 0) {
    return absl::NotFoundError(absl::StrCat("job store ", path, " does not exist"));
  }
  if (access(copy.c_str(), F_OK) == 0) {
    return absl::AlreadyExistsError(
        absl::StrCat("backup ", copy, ": found a file, expected a new name"));
  }
  RETURN_IF_ERROR(CheckFolder(copy));
  RETURN_IF_ERROR(CheckLogUnlessInUse(path, lock));
  const std::string partial = copy + ".partial";
  const auto remove = [&partial] {
    for (const char* end : {"", "-wal", "-shm", "-journal"}) unlink((partial + end).c_str());
  };
  remove();  // what a crash left
  // SQLite would not say why it cannot.
  const FileDescriptor created(
      open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!created.valid()) {
    absl::Status why = ErrnoStatus(errno, absl::StrCat("backup ", copy, ": create ", partial));
    return absl::Status(why.code(),
                        absl::StrCat(why.message(), "; expected a disk that can be written"));
  }
  absl::StatusOr<BackupReport> report = WriteCopy(path, partial, copy);
  if (!report.ok()) remove();
  return report;
}

}  // namespace stretto::coordinator
