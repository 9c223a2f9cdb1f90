// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/database_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "coordinator/store/schema.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"

namespace stretto::coordinator {
namespace {

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

absl::Status Rename(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("rename ", from, " to ", to));
}

// The file that is to replace the database; while it exists, the replacement is not complete.
std::string Replacement(const std::string& path) { return path + ".repaired"; }

}  // namespace

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

absl::Status CreateDatabase(const std::string& path, const std::string& cluster_id) {
  for (const char* left : {"", "-wal", "-shm"}) unlink(absl::StrCat(path, left).c_str());
  ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> database, OpenForWriting(path));
  RETURN_IF_ERROR(Migrate(*database));
  if (cluster_id.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(SqliteStatement put,
                   database->Prepare("UPDATE cluster SET checksum = record_checksum('cluster', "
                                     "?1), id = ?1"));
  put.BindText(1, cluster_id);
  return put.Step().status();
}

absl::Status ReplaceDatabase(const std::string& path, const std::string& fresh) {
  // SQLite reports no error of moving the log into the database at its end, but keeps the log.
  if (Exists(fresh + "-wal")) {
    return absl::ResourceExhaustedError(
        absl::StrCat("job store ", fresh, ": found its log ", fresh,
                     "-wal, expected all of it in the database: is the disk full? ", path,
                     " is left as it was"));
  }
  RETURN_IF_ERROR(Rename(fresh, Replacement(path)));
  return SyncPath(FolderOf(path));
}

absl::StatusOr<std::string> FinishReplacement(const std::string& path) {
  if (!Exists(Replacement(path))) return "";
  int number = 1;
  const auto aside = [&] { return absl::StrCat(path, ".damaged-", number); };
  while (Exists(aside())) ++number;
  // The log first: it must not meet the other database.
  if (Exists(path + "-wal")) RETURN_IF_ERROR(Rename(path + "-wal", aside() + "-wal"));
  unlink((path + "-shm").c_str());
  const bool replaces = Exists(path);
  if (replaces) RETURN_IF_ERROR(Rename(path, aside()));
  RETURN_IF_ERROR(SyncPath(FolderOf(path)));
  RETURN_IF_ERROR(Rename(Replacement(path), path));
  RETURN_IF_ERROR(SyncPath(FolderOf(path)));
  if (!replaces) --number;  // a crash came after it had been put aside
  return number > 0 ? aside() : "";
}

}  // namespace stretto::coordinator
