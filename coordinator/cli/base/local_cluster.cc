// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/base/local_cluster.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"

namespace stretto::cli {
namespace {

constexpr int64_t kMostBytes = 4096;  // of a path

std::string FileOf(const std::string& user_state_dir, int port) {
  return absl::StrCat(user_state_dir, "/local/", port);
}

// Opens and locks the file, which is made if it is missing.
absl::StatusOr<FileDescriptor> LockFile(const std::string& path) {
  while (true) {
    FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
    while (flock(file.get(), LOCK_EX) != 0) {
      if (errno != EINTR) return ErrnoStatus(errno, absl::StrCat("lock ", path));
    }
    // The cluster that had it may have removed it meanwhile.
    struct stat ours = {}, named = {};
    if (fstat(file.get(), &ours) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path));
    if (stat(path.c_str(), &named) == 0 && ours.st_ino == named.st_ino) return file;
  }
}

}  // namespace

std::string UserStateDir(const std::function<std::string(const std::string&)>& variable) {
  const std::string state = variable("XDG_STATE_HOME");
  if (!state.empty()) return state + "/stretto";
  const std::string home = variable("HOME");
  return home.empty() ? ".stretto" : home + "/.local/state/stretto";
}

absl::StatusOr<FileDescriptor> AnnounceLocalCluster(const std::string& user_state_dir, int port,
                                                    const std::string& certificates) {
  const std::string path = FileOf(user_state_dir, port);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("create ", folder.string()));
  ASSIGN_OR_RETURN(FileDescriptor file, LockFile(path));
  if (ftruncate(file.get(), 0) != 0) return ErrnoStatus(errno, absl::StrCat("truncate ", path));
  RETURN_IF_ERROR(WriteAll(file.get(), certificates, path));
  return file;
}

void WithdrawLocalCluster(const std::string& user_state_dir, int port) {
  unlink(FileOf(user_state_dir, port).c_str());
}

std::string FindLocalCluster(const std::string& user_state_dir, int port) {
  const std::string path = FileOf(user_state_dir, port);
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info = {};
  if (!file.valid() || fstat(file.get(), &info) != 0 || info.st_uid != geteuid()) return "";
  if (flock(file.get(), LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK) return "";
  return ReadSmallFile(path, kMostBytes).value_or("");
}

}  // namespace stretto::cli
