// SPDX-License-Identifier: Apache-2.0
#include "worker/checkpoint/best.h"

#include <filesystem>
#include <tuple>
#include <utility>

#include "absl/strings/strip.h"
#include "proto/base/status_macros.h"

namespace stretto {
namespace {

// Orders checkpoints that have a loss, best first.
std::tuple<double, int64_t, int64_t> LossThenAge(const StoredCheckpoint& checkpoint) {
  const TrainingState& state = checkpoint.manifest.state;
  return {*state.held_out.loss, state.epoch, state.step};
}

}  // namespace

const StoredCheckpoint* BestOf(const std::vector<StoredCheckpoint>& stored) {
  const StoredCheckpoint* best = nullptr;
  for (const StoredCheckpoint& checkpoint : stored) {
    if (!checkpoint.manifest.state.held_out.loss.has_value()) continue;
    if (best == nullptr || LossThenAge(checkpoint) < LossThenAge(*best)) best = &checkpoint;
  }
  return best;
}

std::optional<std::string> JobOfBest(const std::string& path) {
  absl::string_view job = path;
  if (!absl::ConsumeSuffix(&job, "/best") || job.empty()) return std::nullopt;
  return std::string(job);
}

absl::StatusOr<std::string> NameOfOwnBest(const std::string& job_folder, const Attempt& self) {
  ASSIGN_OR_RETURN(const std::vector<JobEntry> folders, ListJobFolder(job_folder));
  std::vector<StoredCheckpoint> stored;
  for (const JobEntry& folder : folders) {
    if (folder.name.kind != FolderName::Kind::kFinal) continue;
    absl::StatusOr<Manifest> manifest = GlanceAt(folder.path);
    if (manifest.ok()) stored.push_back({folder, *std::move(manifest)});
  }
  KeepRun(self.job_uid, self.epoch.value(), &stored);
  const StoredCheckpoint* const best = BestOf(stored);
  return best == nullptr ? "" : std::filesystem::path(best->folder.path).filename().string();
}

}  // namespace stretto
