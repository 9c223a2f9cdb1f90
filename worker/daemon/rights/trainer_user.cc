// SPDX-License-Identifier: Apache-2.0

// Folders are opened without following links and changed by their descriptors. A tree is handed
// over only while it belongs to the daemon: afterwards the other user may have put links into it,
// through which a second pass would give away what is elsewhere.

#include "worker/daemon/rights/trainer_user.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/beneath.h"
#include "proto/base/status_macros.h"

namespace stretto::daemon {
namespace {

namespace fs = std::filesystem;

// Finds a row in the table of users; none without it.
std::optional<TrainerUser> FindInTable(const std::string& text, std::optional<uid_t> uid) {
  std::array<char, 1 << 14> memory;
  passwd row = {};
  passwd* found = nullptr;
  if (uid.has_value()) {
    ::getpwuid_r(*uid, &row, memory.data(), memory.size(), &found);
  } else {
    ::getpwnam_r(text.c_str(), &row, memory.data(), memory.size(), &found);
  }
  if (found == nullptr) return std::nullopt;
  TrainerUser user{text, row.pw_dir, row.pw_uid, row.pw_gid, {}};
  user.groups.resize(64);
  int count = 64;
  if (::getgrouplist(row.pw_name, row.pw_gid, user.groups.data(), &count) < 0) count = 0;
  user.groups.resize(count);
  return user;
}

std::optional<uint32_t> NumberOf(const std::string& text) {
  uint32_t number = 0;
  // The greatest number is "no change" for the kernel.
  if (!absl::SimpleAtoi(text, &number) || number == std::numeric_limits<uint32_t>::max())
    return std::nullopt;
  return number;
}

// Returns the step that failed, as one of these: the index of a need, or one beyond them.
int Try(const TrainerUser& user, const std::vector<Need>& needs) {
  if (::syscall(SYS_setgroups, user.groups.size(), user.groups.data()) != 0 ||
      ::syscall(SYS_setresgid, user.gid, user.gid, user.gid) != 0 ||
      ::syscall(SYS_setresuid, user.uid, user.uid, user.uid) != 0)
    return static_cast<int>(needs.size());
  for (size_t i = 0; i < needs.size(); ++i) {
    if (::access(needs[i].path.c_str(), needs[i].access) != 0) return static_cast<int>(i);
  }
  return -1;
}

std::string Verb(int access) {
  if ((access & W_OK) != 0) return "write";
  return (access & R_OK) != 0 ? "read" : "enter";
}

// Opens a folder of the state folder, which it makes if it is missing.
absl::StatusOr<FileDescriptor> OpenFolder(const std::string& state_dir, const std::string& name) {
  const std::string path = name.empty() ? state_dir : absl::StrCat(state_dir, "/", name);
  RETURN_IF_ERROR(MakeFolders(path));
  return OpenFile(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

// Lets the group of the user into a folder, with these bits in addition.
absl::Status LetIn(const TrainerUser& user, const std::string& path, mode_t bits) {
  ASSIGN_OR_RETURN(const FileDescriptor folder,
                   OpenFile(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  struct stat info;
  if (::fstat(folder.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path));
  if (info.st_uid != ::geteuid()) return absl::OkStatus();  // not ours to change
  if (::fchown(folder.get(), -1, user.gid) != 0 ||
      ::fchmod(folder.get(), (info.st_mode & 07777) | bits) != 0)
    return ErrnoStatus(errno, absl::StrCat("share ", path));
  return absl::OkStatus();
}

// Gives a tree to the user, if it is the daemon's own.
absl::Status GiveTree(const TrainerUser& user, const std::string& state_dir,
                      const std::string& name) {
  const std::string path = absl::StrCat(state_dir, "/", name);
  ASSIGN_OR_RETURN(const FileDescriptor folder, OpenFolder(state_dir, name));
  struct stat info;
  if (::fstat(folder.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path));
  if (info.st_uid != ::geteuid()) return absl::OkStatus();
  std::error_code error;
  for (fs::recursive_directory_iterator at(path, error), end; !error && at != end;
       at.increment(error)) {
    if (::lchown(at->path().c_str(), user.uid, user.gid) != 0)
      return ErrnoStatus(errno, absl::StrCat("give ", at->path().string(), " to ", user.name));
  }
  if (error) return ErrnoStatus(error.value(), absl::StrCat("read folder ", path));
  // What the daemon writes there belongs to the group of the folder.
  if (::fchmod(folder.get(), 02770) != 0) return ErrnoStatus(errno, absl::StrCat("share ", path));
  return GiveTo(user, folder, path);
}

}  // namespace

absl::StatusOr<TrainerUser> FindUser(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  const std::optional<uint32_t> uid = NumberOf(parts[0]);
  std::optional<uint32_t> gid;
  if (parts.size() == 2) {
    gid = NumberOf(parts[1]);
    if (!gid.has_value() || !uid.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("found user \"", text, "\", expected NAME, UID or UID:GID"));
    }
  }
  std::optional<TrainerUser> user = FindInTable(parts[0], uid);
  if (!user.has_value() && !uid.has_value())
    return absl::NotFoundError(absl::StrCat("found no user \"", text, "\" on this machine"));
  if (!user.has_value()) user = TrainerUser{parts[0], "", *uid, static_cast<gid_t>(*uid), {}};
  if (gid.has_value()) user->gid = *gid;
  return *std::move(user);
}

absl::Status CheckNeeds(const TrainerUser& user, const std::vector<Need>& needs) {
  const pid_t child = ::_Fork();
  if (child < 0) return ErrnoStatus(errno, "fork");
  if (child == 0) ::_exit(Try(user, needs) + 1);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return ErrnoStatus(errno, "wait for a process");
  }
  const int failed = WIFEXITED(status) ? WEXITSTATUS(status) - 1 : static_cast<int>(needs.size());
  if (failed < 0) return absl::OkStatus();
  if (failed >= static_cast<int>(needs.size())) {
    return absl::UnavailableError(absl::StrCat("this daemon cannot start a process of user ",
                                               user.name, " (uid ", user.uid, ")"));
  }
  const Need& need = needs[failed];
  return absl::PermissionDeniedError(
      absl::StrCat(need.flag, " ", need.path, ": user ", user.name, " (uid ", user.uid, ") cannot ",
                   Verb(need.access), " it, expected a path that the user of trainers can"));
}

absl::Status GiveTo(const TrainerUser& user, const FileDescriptor& file, const std::string& path) {
  if (::fchown(file.get(), user.uid, user.gid) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("give ", path, " to ", user.name));
}

absl::Status ShareStateFolder(const TrainerUser& user, const std::string& state_dir) {
  RETURN_IF_ERROR(LetIn(user, state_dir, 0010));
  for (const char* name : {"runs", "data"}) {
    RETURN_IF_ERROR(OpenFolder(state_dir, name).status());
    // Folders that are made in one with this bit have its group.
    RETURN_IF_ERROR(LetIn(user, absl::StrCat(state_dir, "/", name), 02050));
  }
  // Those of jobs that trained before there was another user.
  std::error_code error;
  for (fs::directory_iterator job(state_dir + "/runs", error), end; !error && job != end;
       job.increment(error)) {
    RETURN_IF_ERROR(LetIn(user, job->path().string(), 02050));
  }
  for (const char* name : {"tuning", "inspection", "checkpoints"}) {
    RETURN_IF_ERROR(GiveTree(user, state_dir, name));
  }
  return absl::OkStatus();
}

absl::Status ShareSocket(const TrainerRights& rights, const std::string& path) {
  if (!rights.user.has_value()) return absl::OkStatus();
  // Only the daemon can replace what is in this folder.
  if (::lchown(path.c_str(), -1, rights.user->gid) == 0 && ::chmod(path.c_str(), 0660) == 0)
    return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("share ", path));
}

}  // namespace stretto::daemon
