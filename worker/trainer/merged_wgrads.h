// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many micro-batches share one weight gradient product where the job leaves it to memory: as
// many as fit on every rank. A run that goes on from a checkpoint takes the checkpoint's number,
// as another would add in another order.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "worker/comm/communicator.h"
#include "worker/trainer/job_config.h"

namespace stretto::trainer {

// The greatest divisor of the step's micro-batches with which `config.ranks_on_node` such ranks fit
// into `available` bytes. Found by halving, as more takes more memory: each micro-batch more keeps
// what its products read. Should the plan of some number once pack better than that of a smaller
// one, a smaller one may be found; it fits all the same, for it has been planned. Errors: those of
// CheckMemory where not even 1 does, and of PlanArenas.
absl::StatusOr<int> MostMergedWgrads(JobConfig config, int64_t available);

// Settles config's number for all ranks, which call it together: the least of their `most`, or that
// of the checkpoint with `saved_hash` (empty: no checkpoint). Errors: FailedPrecondition (the
// checkpoint's does not fit), Internal (a rank sent what is no such number), those of the
// communicator.
absl::Status AgreeOnMergedWgrads(int most, const std::string& saved_hash, Communicator& control,
                                 JobConfig* config);

}  // namespace stretto::trainer
