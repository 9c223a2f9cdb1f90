// SPDX-License-Identifier: Apache-2.0

// What is asked for by name must be possible; what is tried by default is left out with a line in
// the log, because a daemon in a container or of an ordinary user must start too.

#include "worker/daemon/rights/prepared_rights.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/base/beneath.h"
#include "proto/base/status_macros.h"
#include "spdlog/spdlog.h"
#include "worker/daemon/rights/denied_calls.h"
#include "worker/daemon/rights/trainer_user.h"

namespace stretto::daemon {
namespace {

constexpr char kAuto[] = "auto";
constexpr char kNone[] = "none";
constexpr char kPackageUser[] = "stretto";  // that the packages and images make

absl::Status OfFlag(absl::string_view flag, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(flag, ": ", status.message()));
}

// What ShareStateFolder does not provide.
std::vector<Need> NeedsOf(const TrainerFolders& folders) {
  std::vector<Need> needs = {
      {"--trainer", folders.trainer_binary, R_OK | X_OK},
      {"--state-dir", std::filesystem::path(folders.state_dir).parent_path().string(), X_OK}};
  if (folders.data_root != folders.state_dir + "/data")
    needs.push_back({"--data-root", folders.data_root, R_OK | X_OK});
  if (folders.checkpoint_root != folders.state_dir + "/checkpoints")
    needs.push_back({"--checkpoint-root", folders.checkpoint_root, R_OK | W_OK | X_OK});
  return needs;
}

// The user of trainers; none if it is the daemon's.
absl::StatusOr<std::optional<TrainerUser>> ChooseUser(const std::string& asked,
                                                      const TrainerFolders& folders) {
  const bool by_default = asked == kAuto;
  if (by_default && ::geteuid() != 0) return std::nullopt;
  const auto stay = [](const absl::Status& why) {
    spdlog::warn("trainers run as root, as this daemon: {}; --trainer-user names a user for them",
                 std::string(why.message()));
    return std::nullopt;
  };
  absl::StatusOr<TrainerUser> user = FindUser(by_default ? kPackageUser : asked);
  if (!user.ok()) {
    if (by_default) return stay(user.status());
    return OfFlag("--trainer-user", user.status());
  }
  if (user->uid == ::geteuid()) return std::nullopt;
  if (::geteuid() != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("--trainer-user: found user ", user->name, " (uid ", user->uid,
                     "), expected this daemon's, because it does not run as root"));
  }
  if (const absl::Status usable = CheckNeeds(*user, NeedsOf(folders)); !usable.ok()) {
    if (by_default) return stay(usable);
    return OfFlag("--trainer-user", usable);
  }
  RETURN_IF_ERROR(ShareStateFolder(*user, folders.state_dir));
  return *std::move(user);
}

absl::StatusOr<std::optional<TrainerGroups>> ChooseGroups(const RightsOptions& options) {
  if (options.groups == kNone) return std::nullopt;
  const bool by_default = options.groups == kAuto;
  const auto open = [&]() -> absl::StatusOr<TrainerGroups> {
    std::string folder = options.groups;
    if (by_default) {
      ASSIGN_OR_RETURN(folder, TrainerGroups::FindFolder());
    }
    return TrainerGroups::Open(std::move(folder),
                               {.threads = options.threads, .memory_bytes = options.memory_bytes});
  };
  absl::StatusOr<TrainerGroups> groups = open();
  if (groups.ok()) return *std::move(groups);
  if (!by_default) return OfFlag("--trainer-groups", groups.status());
  if (options.memory_bytes > 0) return OfFlag("--max-trainer-memory-bytes", groups.status());
  spdlog::info("trainers are in no control group of their own: {}",
               std::string(groups.status().message()));
  return std::nullopt;
}

// Whether this machine takes the filter, tried by a child: a kernel may lack filters, or another
// filter may refuse them.
bool CanFilter(const std::vector<sock_filter>& filter) {
  TrainerRights rights;
  rights.filter = filter;
  rights.core_dumps = true;
  const pid_t child = ::_Fork();
  if (child < 0) return false;
  if (child == 0) ::_exit(KeepOnly(rights).what == nullptr ? 0 : 1);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return false;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

absl::StatusOr<std::vector<sock_filter>> ChooseFilter(bool all_calls) {
  if (all_calls) return std::vector<sock_filter>();
  ASSIGN_OR_RETURN(std::vector<sock_filter> filter, FilterOfCalls());
  if (CanFilter(filter)) return filter;
  spdlog::warn("trainers may make every system call: this machine takes no filter of them");
  return std::vector<sock_filter>();
}

absl::Status CheckNumbers(const RightsOptions& options) {
  // The libraries of one trainer on a GPU open and start some hundred.
  constexpr int64_t kLeast = 256;
  for (const auto& [flag, value] : {std::pair{"--max-trainer-threads", options.threads},
                                    std::pair{"--max-trainer-files", options.open_files}}) {
    if (value >= kLeast) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(flag, ": found ", value, ", expected at least ", kLeast));
  }
  if (options.memory_bytes >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--max-trainer-memory-bytes: found ",
                                                 options.memory_bytes,
                                                 ", expected 0 for no limit, or more"));
}

void LogRights(const PreparedRights& prepared, const RightsOptions& options) {
  const TrainerRights& rights = prepared.rights;
  spdlog::info("trainers have no new privileges user={} core_dumps={} files={} calls={} groups={}",
               rights.user.has_value() ? rights.user->name : "this daemon's",
               rights.core_dumps ? "written" : "off", options.open_files,
               rights.filter.empty() ? "all" : absl::StrCat(DeniedCalls().size(), " refused"),
               prepared.groups.has_value() ? prepared.groups->folder() : kNone);
}

}  // namespace

absl::StatusOr<PreparedRights> PrepareRights(const RightsOptions& options,
                                             const TrainerFolders& folders, int slots) {
  RETURN_IF_ERROR(CheckNumbers(options));
  // Trainers write there, and what the daemon then opens must be what it takes it for.
  for (const char* name : {"/runs", "/inspection"}) Confine(folders.state_dir + name, Links::kNone);
  PreparedRights prepared;
  TrainerRights& rights = prepared.rights;
  ASSIGN_OR_RETURN(rights.user, ChooseUser(options.user, folders));
  rights.core_dumps = options.core_dumps;
  rights.open_files = options.open_files;
  // The kernel counts the threads of a user, so a limit makes sense only where trainers have one of
  // their own, and then it is for all of them.
  if (rights.user.has_value()) rights.threads = options.threads * std::max(slots, 1);
  ASSIGN_OR_RETURN(rights.filter, ChooseFilter(options.all_calls));
  ASSIGN_OR_RETURN(prepared.groups, ChooseGroups(options));
  LogRights(prepared, options);
  return prepared;
}

}  // namespace stretto::daemon
