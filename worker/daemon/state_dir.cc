// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/state_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/base/status_macros.h"

namespace stretto::daemon {
namespace {

std::string MembershipPath(const std::string& state_dir) { return state_dir + "/cluster"; }

}  // namespace

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

absl::StatusOr<Membership> ReadMembership(const std::string& state_dir) {
  const std::string path = MembershipPath(state_dir);
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return Membership{};
  RETURN_IF_ERROR(text.status());
  const std::vector<std::string> words =
      absl::StrSplit(absl::StripTrailingAsciiWhitespace(*text), ' ');
  Membership membership;
  if (words.size() != 2 || words[0].empty() ||
      !absl::SimpleAtoi(words[1], &membership.newest_epoch) || membership.newest_epoch < 0) {
    return absl::DataLossError(absl::StrCat(path, ": found ", text->size(),
                                            " bytes, expected the id of a cluster and an epoch"));
  }
  membership.cluster_id = words[0];
  return membership;
}

absl::Status WriteMembership(const std::string& state_dir, const Membership& membership) {
  return WriteFileAtomic(MembershipPath(state_dir),
                         absl::StrCat(membership.cluster_id, " ", membership.newest_epoch, "\n"));
}

}  // namespace stretto::daemon
