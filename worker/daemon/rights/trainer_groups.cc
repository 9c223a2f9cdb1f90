// SPDX-License-Identifier: Apache-2.0

// A group with processes cannot give controllers to groups in it. So the daemon is in a group
// beside those of its trainers: a service of systemd by DelegateSubgroup=, a container by moving
// itself. A group can be removed once its processes have ended, and the kernel refuses it before.

#include "worker/daemon/rights/trainer_groups.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/base/host_memory.h"
#include "proto/base/status_macros.h"

namespace stretto::daemon {
namespace {

namespace fs = std::filesystem;

constexpr char kOwnGroup[] = "stretto-worker";

absl::Status WriteTo(const std::string& path, const std::string& text) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
  return WriteAll(file.get(), text, path);
}

// The path of this process in version 2, "/a/b".
absl::StatusOr<std::string> OwnPath(const std::string& root) {
  ASSIGN_OR_RETURN(const std::string table, ReadFile(root + "/proc/self/cgroup"));
  for (absl::string_view line : absl::StrSplit(table, '\n')) {
    if (absl::ConsumePrefix(&line, "0::")) return std::string(line);
  }
  return absl::FailedPreconditionError("this process is in no control group of version 2");
}

bool HasController(const std::string& list, absl::string_view name) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(absl::StripSuffix(list, "\n"), ' ', absl::SkipEmpty());
  return std::find(words.begin(), words.end(), name) != words.end();
}

}  // namespace

absl::StatusOr<std::string> TrainerGroups::FindFolder(const std::string& root) {
  const std::string mount = root + "/sys/fs/cgroup";
  std::error_code error;
  if (!fs::exists(mount + "/cgroup.controllers", error))
    return absl::FailedPreconditionError(mount + " is no tree of control groups of version 2");
  ASSIGN_OR_RETURN(const std::string own, OwnPath(root));
  if (own != "/") {
    const std::string parent = fs::path(mount + own).parent_path().string();
    if (parent == mount && !fs::exists(mount + "/cgroup.type", error))
      return absl::FailedPreconditionError(own + " is not in a part of the tree that is ours");
    return parent;
  }
  // The root of the whole tree has no type: it is the machine's.
  if (!fs::exists(mount + "/cgroup.type", error))
    return absl::FailedPreconditionError("this process is in the root of all control groups");
  const std::string group = absl::StrCat(mount, "/", kOwnGroup);
  if (::mkdir(group.c_str(), 0755) != 0 && errno != EEXIST) {
    const int reason = errno;
    return absl::FailedPreconditionError(ErrnoStatus(reason, "make " + group).message());
  }
  if (absl::Status moved = WriteTo(group + "/cgroup.procs", absl::StrCat(::getpid()));
      !moved.ok()) {
    return absl::FailedPreconditionError(moved.message());
  }
  return mount;
}

absl::StatusOr<TrainerGroups> TrainerGroups::Open(std::string folder, Limits limits) {
  const auto refuse = [&](const absl::Status& why) {
    return absl::FailedPreconditionError(
        absl::StrCat("control group ", folder, ": ", why.message()));
  };
  const absl::StatusOr<std::string> controllers = ReadFile(folder + "/cgroup.controllers");
  if (!controllers.ok()) return refuse(controllers.status());
  std::vector<std::string> wanted;
  if (limits.threads > 0) wanted.emplace_back("pids");
  if (limits.memory_bytes > 0) wanted.emplace_back("memory");
  for (const std::string& name : wanted) {
    if (!HasController(*controllers, name)) {
      return refuse(absl::NotFoundError(absl::StrCat("found controllers \"",
                                                     absl::StripSuffix(*controllers, "\n"),
                                                     "\", expected ", name, " among them")));
    }
    const absl::Status given = WriteTo(folder + "/cgroup.subtree_control", "+" + name);
    if (!given.ok()) return refuse(given);
  }
  return TrainerGroups(std::move(folder), limits);
}

absl::StatusOr<FileDescriptor> TrainerGroups::Make(const std::string& name) const {
  const std::string group = absl::StrCat(folder_, "/", name);
  if (::mkdir(group.c_str(), 0755) != 0 && errno != EEXIST)
    return ErrnoStatus(errno, absl::StrCat("make control group ", group));
  if (limits_.threads > 0)
    RETURN_IF_ERROR(WriteTo(group + "/pids.max", absl::StrCat(limits_.threads)));
  if (limits_.memory_bytes > 0) {
    RETURN_IF_ERROR(WriteTo(group + "/memory.max", absl::StrCat(limits_.memory_bytes)));
    // The kernel would end one process of several, and the rest would wait for it.
    RETURN_IF_ERROR(WriteTo(group + "/memory.oom.group", "1"));
  }
  const std::string path = group + "/cgroup.procs";
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
  return file;
}

bool TrainerGroups::RanOutOfMemory(const std::string& name) const {
  const std::string events =
      ReadFile(absl::StrCat(folder_, "/", name, "/memory.events")).value_or("");
  return KernelField(events, "oom_kill").value_or(0) > 0;
}

void TrainerGroups::RemoveEnded() const {
  std::error_code error;
  std::vector<std::string> groups;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    if (absl::StartsWith(at->path().filename().string(), kTrainerGroup))
      groups.push_back(at->path().string());
  }
  for (const std::string& group : groups) ::rmdir(group.c_str());  // refused where there are some
}

}  // namespace stretto::daemon
