// SPDX-License-Identifier: Apache-2.0
#pragma once
// The data on which a job's loss is measured.

#include <memory>

#include "absl/status/statusor.h"
#include "worker/data/training_data.h"
#include "worker/trainer/job_config.h"

namespace stretto::trainer {

struct HeldOutData {
  std::unique_ptr<TrainingData> own;  // null if it is a part of the training data
  const Sampler* sampler = nullptr;   // in the order of the data
};

// Opens the data of config.evaluation; the result borrows `training`. Reads the samples of an
// evaluation, up to 16 Mi tokens. Errors: those of TrainingData::Open, CheckSameTokenizer and
// Sampler::ReadBatch; InvalidArgument (a part has fewer sequences than an evaluation takes, or
// nothing is held out).
absl::StatusOr<HeldOutData> OpenHeldOut(const JobConfig& config, const TrainingData& training);

}  // namespace stretto::trainer
