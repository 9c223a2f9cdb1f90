#pragma once
// Whether the ranks of a job fit into the memory they have, before anything is allocated: their
// node's, which they share, or a GPU's each.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/program/verify.h"
#include "worker/trainer/job_config.h"

namespace stretto::trainer {

// The arenas that this rank holds at its fullest: those of its training step, or of a program that
// the profile runs before. A floor: what libraries keep beside them comes on top. Errors: those of
// PlanArenas.
absl::StatusOr<ArenaBytes> ArenasOf(const JobConfig& config);

// ResourceExhausted, naming the estimate, what is available and the largest arenas, unless the
// config's ranks that share `available` bytes fit into them.
absl::Status CheckMemory(const ArenaBytes& arenas, const JobConfig& config, int64_t available);

}  // namespace stretto::trainer
