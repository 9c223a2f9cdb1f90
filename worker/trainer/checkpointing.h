// SPDX-License-Identifier: Apache-2.0
#pragma once
// Saves the state of all ranks as one checkpoint.

#include <string>

#include "absl/status/statusor.h"
#include "worker/trainer/train_loop.h"

namespace stretto::trainer {

// Writes a checkpoint. Every rank calls this together, between steps. A checkpoint that cannot be
// written is reported and leaves older ones unchanged; the result is then the reason, and otherwise
// empty. The report answers the request of this number, if it is not 0. Errors, which end training: those of CheckReplicas, before anything is written, and of the
// group.
absl::StatusOr<std::string> SaveCheckpoint(const TrainContext& context, const TrainState& state,
                                           int64_t request = 0);

}  // namespace stretto::trainer
