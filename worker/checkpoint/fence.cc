// SPDX-License-Identifier: Apache-2.0
#include "worker/checkpoint/fence.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "proto/base/beneath.h"
#include "proto/base/status_macros.h"
#include "worker/checkpoint/job_folder.h"

namespace stretto {

namespace fs = std::filesystem;

absl::Status RaiseFence(const std::string& job_folder, const Attempt& attempt) {
  const std::string folder =
      absl::StrCat(job_folder, "/", TemporaryName(0, attempt.epoch.value(), attempt.job_uid));
  RETURN_IF_ERROR(MakeFolders(folder));
  return SyncPath(job_folder);
}

absl::Status CheckFence(const std::string& job_folder, const Attempt& attempt) {
  ASSIGN_OR_RETURN(const std::vector<JobEntry> folders, ListJobFolder(job_folder));
  for (const JobEntry& folder : folders) {
    int64_t other = 0;
    if (folder.name.kind == FolderName::Kind::kTemporary) {
      if (folder.name.run == ShortUid(attempt.job_uid)) other = folder.name.suffix;
    } else if (folder.name.kind == FolderName::Kind::kFinal) {
      const absl::StatusOr<Manifest> manifest = ReadManifest(folder.path);
      if (manifest.ok() && manifest->state.job_uid == attempt.job_uid)
        other = manifest->state.epoch;
    }
    if (other > attempt.epoch.value()) {
      return absl::AbortedError(absl::StrCat("checkpoint in ", job_folder, ": found epoch ", other,
                                             " in ", fs::path(folder.path).filename().string(),
                                             ", expected none newer than ours, ",
                                             attempt.epoch.value()));
    }
  }
  return absl::OkStatus();
}

}  // namespace stretto
