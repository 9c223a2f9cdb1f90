// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/state_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/status_macros.h"

namespace stretto::daemon {

absl::StatusOr<FileDescriptor> LockStateDir(const std::string& state_dir) {
  std::error_code error;
  const bool created = std::filesystem::create_directories(state_dir, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("create state folder ", state_dir));
  if (created) ::chmod(state_dir.c_str(), 0700);

  const std::string path = state_dir + "/lock";
  FileDescriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoStatus(errno, absl::StrCat("lock ", path));
    const absl::StatusOr<std::string> holder = ReadFile(path);
    return absl::AlreadyExistsError(absl::StrCat(
        "state folder ", state_dir, " is in use by another stretto-worker (pid ",
        holder.ok() ? absl::StripSuffix(*holder, "\n") : absl::string_view("unknown"), ")"));
  }
  if (::ftruncate(lock.get(), 0) != 0) return ErrnoStatus(errno, absl::StrCat("truncate ", path));
  RETURN_IF_ERROR(WriteAll(lock.get(), absl::StrCat(::getpid(), "\n"), path));
  return lock;
}

}  // namespace stretto::daemon
