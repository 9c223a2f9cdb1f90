// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/job_folder.h"
#include "worker/checkpoint/lineage.h"
#include "worker/checkpoint/project.h"

namespace stretto {
namespace {

// An I/O error, a missing permission or a newer format proves nothing about a checkpoint.
bool IsBad(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsDataLoss(status) || absl::IsNotFound(status);
}

struct Scan {
  std::vector<StoredCheckpoint> candidates;
  std::vector<std::pair<JobEntry, absl::Status>> unreadable;
};

absl::StatusOr<Scan> ScanFolder(const std::string& job_folder) {
  ASSIGN_OR_RETURN(const std::vector<JobEntry> folders, ListJobFolder(job_folder));
  Scan scan;
  for (const JobEntry& folder : folders) {
    if (folder.name.kind != FolderName::Kind::kFinal) continue;
    absl::StatusOr<Manifest> manifest = ReadManifest(folder.path);
    if (manifest.ok()) {
      scan.candidates.push_back({folder, *std::move(manifest)});
    } else if (IsBad(manifest.status())) {
      scan.unreadable.emplace_back(folder, manifest.status());
    } else {
      return manifest.status();
    }
  }
  return scan;
}

// Notes a bad checkpoint, and renames it if `rename`.
absl::Status PassOver(const std::string& job_folder, const JobEntry& entry, const absl::Status& why,
                      bool rename, FoundCheckpoint* found) {
  std::string path = entry.path;
  if (rename) {
    const auto name = [&](int64_t number) { return BadName(entry.name.step, number); };
    ASSIGN_OR_RETURN(path, PutAside(job_folder, entry.path, name));
  }
  found->bad.push_back(absl::StrCat(path, ": ", why.message()));
  return absl::OkStatus();
}

// Called only once it is clear that every folder can be read, so that an error leaves all names.
// Renames bad checkpoints of the run `owner`; of nobody if that is empty.
absl::StatusOr<FoundCheckpoint> TakeFirstValid(const std::string& job_folder, Scan scan,
                                               const CheckFolder& check, const std::string& owner) {
  FoundCheckpoint found;
  const bool rename = !owner.empty();
  for (const auto& [folder, why] : scan.unreadable) {
    const bool own = rename && RunOfDamaged(folder.path) == owner;
    RETURN_IF_ERROR(PassOver(job_folder, folder, why, own, &found));
  }
  for (StoredCheckpoint& candidate : scan.candidates) {
    const JobEntry& folder = candidate.folder;
    const absl::Status status = check ? check(folder.path) : Checkpoint::Open(folder.path).status();
    if (status.ok()) {
      found.folder = folder.path;
      found.manifest = std::move(candidate.manifest);
      return found;
    }
    if (!IsBad(status)) return status;
    RETURN_IF_ERROR(PassOver(job_folder, folder, status, rename, &found));
  }
  std::string bad;
  for (const std::string& line : found.bad) absl::StrAppend(&bad, "; ", line);
  return absl::NotFoundError(
      absl::StrCat("checkpoint in ", job_folder, ": found no valid one", bad));
}

}  // namespace

absl::StatusOr<FoundCheckpoint> FindNewestValid(const std::string& job_folder,
                                                const CheckFolder& check) {
  return FindNewestOfProject(job_folder, /*project=*/"", check);
}

absl::StatusOr<FoundCheckpoint> FindNewestOfProject(const std::string& job_folder,
                                                    const std::string& project,
                                                    const CheckFolder& check) {
  ASSIGN_OR_RETURN(Scan scan, ScanFolder(job_folder));
  // First, so that neither their runs nor their damage are in the way of others, or in an error.
  RETURN_IF_ERROR(KeepProject(job_folder, project, &scan.candidates));
  RETURN_IF_ERROR(KeepOneRun(job_folder, &scan.candidates));
  return TakeFirstValid(job_folder, std::move(scan), check, /*owner=*/"");
}

absl::StatusOr<FoundCheckpoint> FindOwnNewestValid(const std::string& job_folder,
                                                   const Attempt& self, const CheckFolder& check) {
  absl::StatusOr<Scan> scan = ScanFolder(job_folder);
  if (absl::IsNotFound(scan.status())) return FoundCheckpoint{};
  RETURN_IF_ERROR(scan.status());
  KeepRun(self.job_uid, self.epoch.value(), &scan->candidates);
  // A damaged manifest may not show whose it is.
  if (scan->candidates.empty()) return FoundCheckpoint{};
  return TakeFirstValid(job_folder, *std::move(scan), check, self.job_uid);
}

}  // namespace stretto
