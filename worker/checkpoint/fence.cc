// SPDX-License-Identifier: Apache-2.0
#include "worker/checkpoint/fence.h"

#include <sys/stat.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "proto/base/beneath.h"
#include "proto/base/status_macros.h"

namespace stretto {

namespace fs = std::filesystem;

absl::Status RaiseFence(const std::string& job_folder, const Attempt& attempt) {
  const std::string folder =
      absl::StrCat(job_folder, "/", TemporaryName(0, attempt.epoch.value(), attempt.job_uid));
  RETURN_IF_ERROR(MakeFolders(folder));
  return SyncPath(job_folder);
}

absl::Status CheckFence(const std::string& job_folder, const Attempt& attempt) {
  return Fence(job_folder, attempt).Check();
}

absl::Status Fence::Check() {
  ASSIGN_OR_RETURN(const std::vector<JobEntry> folders, ListJobFolder(job_folder_));
  std::map<std::string, Known> known;
  for (const JobEntry& folder : folders) {
    const int64_t other = EpochOf(folder, &known);
    if (other > attempt_.epoch.value()) {
      return absl::AbortedError(absl::StrCat("checkpoint in ", job_folder_, ": found epoch ", other,
                                             " in ", fs::path(folder.path).filename().string(),
                                             ", expected none newer than ours, ",
                                             attempt_.epoch.value()));
    }
  }
  known_ = std::move(known);
  return absl::OkStatus();
}

// The epoch of the attempt of this run that wrote the folder; 0 if none did.
int64_t Fence::EpochOf(const JobEntry& folder, std::map<std::string, Known>* known) const {
  if (folder.name.kind == FolderName::Kind::kTemporary)
    return folder.name.run == ShortUid(attempt_.job_uid) ? folder.name.suffix : 0;
  if (folder.name.kind != FolderName::Kind::kFinal) return 0;
  struct stat info = {};
  if (::stat(folder.path.c_str(), &info) != 0) return 0;
  Known now = {.inode = info.st_ino, .changed = absl::TimeFromTimespec(info.st_mtim)};
  if (const auto old = known_.find(folder.path);
      old != known_.end() && old->second.inode == now.inode && old->second.changed == now.changed) {
    now.epoch = old->second.epoch;
  } else {
    const absl::StatusOr<Manifest> manifest = ReadManifest(folder.path);
    if (!manifest.ok()) return 0;
    if (manifest->state.job_uid == attempt_.job_uid) now.epoch = manifest->state.epoch;
  }
  known->emplace(folder.path, now);
  return now.epoch;
}

}  // namespace stretto
