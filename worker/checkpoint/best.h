// SPDX-License-Identifier: Apache-2.0
#pragma once
// The best checkpoint of a run: that with the lowest loss on held-out data, the earliest of
// several. It is one of a step that was evaluated; all evaluations of a run measure the same data.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/lineage.h"

namespace stretto {

// Of checkpoints of one run. Returns null if none has a loss.
const StoredCheckpoint* BestOf(const std::vector<StoredCheckpoint>& stored);

// Returns the folder JOB of a path "JOB/best", which denotes the best checkpoint there.
std::optional<std::string> JobOfBest(const std::string& path);

// Returns the name of the best checkpoint of the run `self`; empty if it has none. Errors: those of
// ListJobFolder.
absl::StatusOr<std::string> NameOfOwnBest(const std::string& job_folder, const Attempt& self);

}  // namespace stretto
