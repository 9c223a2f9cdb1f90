// SPDX-License-Identifier: Apache-2.0
#include "worker/checkpoint/lineage.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stretto {
namespace {

std::pair<int64_t, int64_t> Order(const StoredCheckpoint& checkpoint) {
  return {checkpoint.manifest.state.epoch, checkpoint.manifest.state.step};
}

void SortNewestFirst(std::vector<StoredCheckpoint>* stored) {
  std::sort(stored->begin(), stored->end(),
            [](const auto& a, const auto& b) { return Order(a) > Order(b); });
}

}  // namespace

absl::Status KeepOneRun(const std::string& job_folder, std::vector<StoredCheckpoint>* stored) {
  SortNewestFirst(stored);
  std::map<std::string, const StoredCheckpoint*> newest;  // by job uid
  std::set<std::string> parents;
  for (const StoredCheckpoint& checkpoint : *stored) {
    const TrainingState& state = checkpoint.manifest.state;
    newest.emplace(state.job_uid, &checkpoint);
    // A run's later attempts have the run itself as their parent.
    if (state.parent.has_value() && state.parent->job_uid != state.job_uid) {
      parents.insert(state.parent->job_uid);
    }
  }
  for (const std::string& parent : parents) newest.erase(parent);
  if (newest.size() == 1) {
    const std::string run = newest.begin()->first;
    std::erase_if(*stored, [&](const auto& c) { return c.manifest.state.job_uid != run; });
    return absl::OkStatus();
  }
  if (stored->empty()) return absl::OkStatus();
  std::string runs;
  for (const auto& [uid, checkpoint] : newest) {
    absl::StrAppend(&runs, runs.empty() ? "" : ", ", uid.empty() ? "unknown" : ShortUid(uid),
                    " with ", std::filesystem::path(checkpoint->folder.path).filename().string());
  }
  return absl::FailedPreconditionError(
      absl::StrCat("checkpoints in ", job_folder, ": found those of ", newest.size(),
                   " runs of that name (", runs, "), expected those of one: name a checkpoint"));
}

void KeepRun(const std::string& job_uid, int64_t epoch, std::vector<StoredCheckpoint>* stored) {
  SortNewestFirst(stored);
  const auto is_of = [](const std::string& run) {
    return [&run](const StoredCheckpoint& c) { return c.manifest.state.job_uid == run; };
  };
  if (std::any_of(stored->begin(), stored->end(), is_of(job_uid))) {
    std::erase_if(*stored, std::not_fn(is_of(job_uid)));
    return;
  }
  std::erase_if(*stored, [&](const StoredCheckpoint& c) {
    return !c.manifest.state.job_uid.empty() || c.manifest.state.epoch >= epoch;
  });
}

}  // namespace stretto
