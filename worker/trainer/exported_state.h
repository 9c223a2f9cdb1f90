// SPDX-License-Identifier: Apache-2.0
#pragma once
// Resumes from the output of `stretto checkpoint export --format hf --optimizer`: the masters are
// the model's weights, in F32; moments and TrainingState are in kOptimizerFileName beside them
// (checkpoint/training_state.h).

#include <memory>

#include "absl/status/statusor.h"
#include "worker/trainer/job_config.h"
#include "worker/trainer/saved_state.h"

namespace stretto::trainer {

// Opens config.resume_model. Errors: those of OpenModel and CheckSameModel; InvalidArgument
// (weights of another type than F32, an optimizer's file that is malformed or has no state),
// NotFound (no such file).
absl::StatusOr<std::unique_ptr<SavedState>> OpenExportedState(const JobConfig& config);

}  // namespace stretto::trainer
