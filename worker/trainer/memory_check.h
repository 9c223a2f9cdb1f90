// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks before anything is allocated whether the ranks of a job fit into their memory: the node's,
// which they share, or a GPU for each.

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/program/verify.h"
#include "worker/trainer/job_config.h"

namespace stretto::trainer {

struct RankArenas {
  Rank rank;
  ArenaBytes arenas = {};
  int stage = -1;  // of a pipeline; -1: the model is in one stage
};

// Returns FullestArenas (plan/arenas.h) of the ranks whose memory this rank shares: those of its
// node, or this rank alone on a GPU.
absl::StatusOr<std::vector<RankArenas>> ArenasOf(const JobConfig& config);

// Returns ResourceExhausted, naming the estimate, the available memory, the largest rank with its
// stage, and its largest arenas, unless the ranks fit together into `available` bytes.
absl::Status CheckMemory(const std::vector<RankArenas>& ranks, bool on_gpu, int64_t available);

// The same for ArenasOf(config). With stages, a refusal also says what fewer micro-batches in
// flight would need.
absl::Status CheckMemory(const JobConfig& config, int64_t available);

}  // namespace stretto::trainer
