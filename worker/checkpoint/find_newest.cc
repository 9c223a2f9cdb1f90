// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/job_folder.h"

namespace stretto {
namespace {

// An I/O error or a missing permission proves nothing about a checkpoint.
bool IsBad(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsDataLoss(status) || absl::IsNotFound(status);
}

// Returns "NEW_FOLDER: why".
absl::StatusOr<std::string> Quarantine(const std::string& job_folder, const JobEntry& entry,
                                       const absl::Status& why) {
  if (!IsBad(why)) return why;
  for (int64_t number = 1;; ++number) {
    const std::string bad = absl::StrCat(job_folder, "/", BadName(entry.name.step, number));
    std::error_code ignored;
    if (std::filesystem::exists(bad, ignored)) continue;
    if (std::rename(entry.path.c_str(), bad.c_str()) != 0) {
      return ErrnoStatus(errno, absl::StrCat("rename ", entry.path, " to ", bad));
    }
    return absl::StrCat(bad, ": ", why.message());
  }
}

struct Candidate {
  JobEntry folder;
  Manifest manifest;
};

std::pair<int64_t, int64_t> Order(const Manifest& manifest) {
  return {manifest.state.epoch, manifest.state.step};
}

}  // namespace

absl::StatusOr<FoundCheckpoint> FindNewestValid(const std::string& job_folder,
                                                const CheckFolder& check) {
  ASSIGN_OR_RETURN(std::vector<JobEntry> folders, ListJobFolder(job_folder));
  FoundCheckpoint found;
  std::vector<Candidate> candidates;
  for (const JobEntry& folder : folders) {
    if (folder.name.kind != FolderName::Kind::kFinal) continue;
    absl::StatusOr<Manifest> manifest = GlanceAt(folder.path);
    if (manifest.ok()) {
      candidates.push_back({folder, *std::move(manifest)});
    } else {
      ASSIGN_OR_RETURN(std::string line, Quarantine(job_folder, folder, manifest.status()));
      found.quarantined.push_back(std::move(line));
    }
  }
  std::sort(candidates.begin(), candidates.end(),
            [](const auto& a, const auto& b) { return Order(a.manifest) > Order(b.manifest); });
  for (auto& [folder, manifest] : candidates) {
    const absl::Status status = check ? check(folder.path) : Checkpoint::Open(folder.path).status();
    if (status.ok()) {
      found.folder = folder.path;
      found.manifest = std::move(manifest);
      return found;
    }
    ASSIGN_OR_RETURN(std::string line, Quarantine(job_folder, folder, status));
    found.quarantined.push_back(std::move(line));
  }
  std::string bad;
  for (const std::string& line : found.quarantined) absl::StrAppend(&bad, "; ", line);
  return absl::NotFoundError(
      absl::StrCat("checkpoint in ", job_folder, ": found no valid one", bad));
}

}  // namespace stretto
