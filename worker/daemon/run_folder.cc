// SPDX-License-Identifier: Apache-2.0

// Creates, finds and scans run folders. A file is written whole (WriteFileAtomic), so a scan after
// a crash either finds it or not. Prune removes the oldest job folders beyond a number, but only
// those whose ranks are all done and that no live job uses.

#include "worker/daemon/run_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/beneath.h"
#include "proto/base/ids.h"
#include "proto/base/log.h"
#include "proto/base/status_macros.h"
#include "spdlog/spdlog.h"
#include "worker/daemon/rights/trainer_user.h"

namespace stretto::daemon {
namespace {

namespace fs = std::filesystem;
using stretto::v1alpha1::Assign;

constexpr size_t kUidDigits = 8;

bool IsUid(const std::string& uid) {
  return uid.size() >= kUidDigits && uid.size() <= 64 &&
         std::all_of(uid.begin(), uid.end(), [](char c) {
           return c == '-' || absl::ascii_isalnum(static_cast<unsigned char>(c));
         });
}

std::vector<fs::path> Children(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    paths.push_back(it->path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Reads a file that this daemon has written. Where trainers are of another user, they own the
// folder, and might say in such a file which process to end.
absl::StatusOr<std::string> ReadOwnFile(const std::string& path) {
  ASSIGN_OR_RETURN(const FileDescriptor file, OpenFile(path, O_RDONLY));
  struct stat info;
  if (::fstat(file.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path));
  if (info.st_uid != ::geteuid() && info.st_uid != 0) {
    return absl::PermissionDeniedError(absl::StrCat(path, ": found a file of user ", info.st_uid,
                                                    ", expected one of user ", ::geteuid()));
  }
  std::string content(info.st_size, '\0');
  RETURN_IF_ERROR(ReadFully(file.get(), 0, info.st_size, content.data(), path));
  return content;
}

absl::StatusOr<StoredRun> ReadRun(const fs::path& folder) {
  ASSIGN_OR_RETURN(const std::string bytes, ReadOwnFile((folder / "assignment").string()));
  Assign assign;
  if (!assign.ParseFromString(bytes)) {
    return absl::DataLossError(absl::StrCat((folder / "assignment").string(), " is not an Assign"));
  }
  const std::string name = folder.filename().string();
  for (const auto& slot : assign.ranks()) {
    if (name != absl::StrCat("rank-", slot.rank())) continue;
    StoredRun run{{assign.job_uid(), assign.epoch(), slot.rank()},
                  RunFolder(folder.string()),
                  assign,
                  slot.slot(),
                  std::nullopt,
                  false};
    absl::StatusOr<ProcessId> process = run.folder.ReadProcess();
    if (process.ok()) run.process = *process;
    run.done = run.folder.Done();
    return run;
  }
  return absl::DataLossError(
      absl::StrCat(folder.string(), " is not a rank of the assignment it holds"));
}

}  // namespace

absl::Status RunFolder::WriteProcess(const ProcessId& process) const {
  return WriteFileAtomic(path_ + "/pid", FormatProcessId(process));
}

absl::StatusOr<ProcessId> RunFolder::ReadProcess() const {
  ASSIGN_OR_RETURN(const std::string text, ReadOwnFile(path_ + "/pid"));
  return ParseProcessId(text);
}

absl::Status RunFolder::MarkStopping(const std::string& reason) const {
  return WriteFileAtomic(path_ + "/stopping", reason);
}
bool RunFolder::Stopping() const { return ::access((path_ + "/stopping").c_str(), F_OK) == 0; }
absl::Status RunFolder::MarkDone() const { return WriteFileAtomic(path_ + "/done", ""); }
bool RunFolder::Done() const { return ::access((path_ + "/done").c_str(), F_OK) == 0; }

absl::Status RunFolder::GiveTo(const TrainerUser& user) const {
  ASSIGN_OR_RETURN(const FileDescriptor folder, OpenFile(path_, O_RDONLY | O_DIRECTORY));
  RETURN_IF_ERROR(daemon::GiveTo(user, folder, path_));
  const absl::StatusOr<FileDescriptor> log = OpenFile(reports(), O_RDONLY | O_NOFOLLOW);
  if (absl::IsNotFound(log.status())) return absl::OkStatus();
  RETURN_IF_ERROR(log.status());
  return daemon::GiveTo(user, *log, reports());
}

absl::StatusOr<FileDescriptor> RunFolder::OpenLog(const std::string& first_line) const {
  ASSIGN_OR_RETURN(FileDescriptor file, OpenFile(log(), O_WRONLY | O_APPEND | O_CREAT, 0640));
  RETURN_IF_ERROR(WriteAll(file.get(), absl::StrCat(first_line, "\n"), log()));
  return file;
}

absl::StatusOr<RunFolder> RunFolders::Create(const Assign& assign, int32_t rank) const {
  if (!IsValidName(assign.job_id()) || !IsUid(assign.job_uid())) {
    return absl::InvalidArgumentError(
        absl::StrCat("assignment of job \"", assign.job_id(), "\" uid \"", assign.job_uid(),
                     "\": expected a DNS label and at least ", kUidDigits, " letters or digits"));
  }
  const std::string path =
      absl::StrCat(root_, "/", assign.job_id(), "-", assign.job_uid().substr(0, kUidDigits),
                   "/epoch-", assign.epoch(), "/rank-", rank);
  RETURN_IF_ERROR(MakeFolders(path));
  RETURN_IF_ERROR(WriteFileAtomic(path + "/assignment", assign.SerializeAsString()));
  return RunFolder(path);
}

absl::StatusOr<RunFolder> RunFolders::Find(const RankKey& key) const {
  const std::string suffix = absl::StrCat("-", key.job_uid.substr(0, kUidDigits));
  if (IsUid(key.job_uid)) {
    for (const fs::path& job : Children(root_)) {
      if (!absl::EndsWith(job.filename().string(), suffix)) continue;
      const fs::path rank =
          job / absl::StrCat("epoch-", key.epoch) / absl::StrCat("rank-", key.rank);
      // Another job's uid may begin alike.
      if (absl::StatusOr<StoredRun> run = ReadRun(rank); run.ok() && run->key == key)
        return std::move(run->folder);
    }
  }
  return absl::NotFoundError(absl::StrCat(root_, " has no folder of ", key.ToString()));
}

std::vector<StoredRun> RunFolders::Scan() const {
  std::vector<StoredRun> runs;
  for (const fs::path& job : Children(root_)) {
    for (const fs::path& epoch : Children(job)) {
      for (const fs::path& rank : Children(epoch)) {
        absl::StatusOr<StoredRun> run = ReadRun(rank);
        if (run.ok()) {
          runs.push_back(*std::move(run));
        } else {
          spdlog::warn("run folder skipped: {}", std::string(run.status().message()));
        }
      }
    }
  }
  return runs;
}

int RunFolders::Prune(int keep, const std::set<std::string>& job_uids_in_use) const {
  struct Job {
    fs::file_time_type time;
    fs::path folder;
  };
  std::map<fs::path, bool> removable;  // job folder -> all its ranks are done and unused
  for (const StoredRun& run : Scan()) {
    const fs::path job = fs::path(run.folder.path()).parent_path().parent_path();
    const bool ended = run.done && job_uids_in_use.count(run.key.job_uid) == 0;
    const auto [it, first] = removable.emplace(job, ended);
    if (!first) it->second = it->second && ended;
  }
  std::vector<Job> jobs;
  for (const auto& [folder, ended] : removable) {
    std::error_code error;
    const fs::file_time_type time = fs::last_write_time(folder, error);
    if (ended && !error) jobs.push_back({time, folder});
  }
  std::sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) {
    return std::tie(b.time, b.folder) < std::tie(a.time, a.folder);  // newest first
  });
  int deleted = 0;
  for (size_t i = std::max(keep, 0); i < jobs.size(); ++i) {
    if (RemoveTree(jobs[i].folder.string()).ok()) ++deleted;
  }
  return deleted;
}

absl::StatusOr<int32_t> SlotOf(const Assign& assign, int32_t rank) {
  for (const auto& slot : assign.ranks()) {
    if (slot.rank() == rank) return slot.slot();
  }
  return absl::NotFoundError(
      absl::StrCat("rank ", rank, " is not in the assignment of job ", assign.job_id()));
}

}  // namespace stretto::daemon
