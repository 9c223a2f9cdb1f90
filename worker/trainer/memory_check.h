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
  // In the same memory: the copy that `checkpoint.asynchronous: true` asks for, which is of the
  // node's memory and so none on GPUs.
  int64_t copy = 0;
};

// Returns FullestArenas (plan/arenas.h) of the ranks whose memory this rank shares: those of its
// node, or this rank alone on a GPU.
absl::StatusOr<std::vector<RankArenas>> ArenasOf(const JobConfig& config);

// Returns ResourceExhausted, naming the estimate, the available memory, the largest rank with its
// stage, its largest arenas and the copies, unless the ranks fit together into `available` bytes.
absl::Status CheckMemory(const std::vector<RankArenas>& ranks, bool on_gpu, int64_t available);

// The same for ArenasOf(config). A refusal also says what would need less: no copies, with stages
// fewer micro-batches in flight, and more that backward recomputes.
absl::Status CheckMemory(const JobConfig& config, int64_t available);

// Returns the bytes of this rank's copy for asynchronous checkpoints.
int64_t CopyBytes(const JobConfig& config);

// The ranks of a node on GPUs, whose copies are in memory that nothing else of theirs uses: returns
// ResourceExhausted, naming bytes and field, if the config asks for copies that do not fit together
// into `available` bytes of the node.
absl::Status CheckCopies(const JobConfig& config, int64_t available);

// Whether checkpoints of this job are asynchronous on this node, which had `available` bytes before
// its ranks took any. Where the config leaves it open, the copies may take half of what the arenas
// leave: these are a lower bound, other jobs come, and files are written through memory too.
// Errors: those of ArenasOf.
absl::StatusOr<bool> MakesCopies(const JobConfig& config, int64_t available);

}  // namespace stretto::trainer
