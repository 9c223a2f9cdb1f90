// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chooses how many micro-batches share one weight gradient product when the job leaves the choice
// to memory: as many as fit on every rank. A run that resumes from a checkpoint takes the
// checkpoint's number, because another number would change the order of additions.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "worker/comm/communicator.h"
#include "worker/trainer/job_config.h"

namespace stretto::trainer {

// Returns the greatest divisor of the step's micro-batches with which `config.ranks_on_node` such
// ranks fit into `available` bytes. It is found by bisection, because a larger number takes more
// memory: the operands of the products are kept for more micro-batches. If the plan of a number
// happens to pack better than that of a smaller one, the result may be too small; it fits in any
// case, because it has been planned. Errors: those of CheckMemory when not even 1 fits, and of
// PlanArenas.
absl::StatusOr<int> MostMergedWgrads(JobConfig config, int64_t available);

// Settles config's number for all ranks, which call it together: the least of their `most`, or that
// of the checkpoint with `saved_hash` (empty: no checkpoint). Errors: FailedPrecondition (the
// checkpoint's number does not fit), Internal (a rank sent an invalid number), those of the
// communicator.
absl::Status AgreeOnMergedWgrads(int most, const std::string& saved_hash, Communicator& control,
                                 JobConfig* config);

}  // namespace stretto::trainer
