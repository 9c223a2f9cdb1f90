// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks before anything is allocated whether the ranks of a job fit into their memory: the node's,
// which they share, or a GPU for each.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/program/verify.h"
#include "worker/trainer/job_config.h"

namespace stretto::trainer {

// Returns FullestArenas (plan/arenas.h) of this rank.
absl::StatusOr<ArenaBytes> ArenasOf(const JobConfig& config);

// Returns ResourceExhausted, naming the estimate, the available memory and the largest arenas,
// unless the config's ranks that share `available` bytes fit into them.
absl::Status CheckMemory(const ArenaBytes& arenas, const JobConfig& config, int64_t available);

}  // namespace stretto::trainer
