// SPDX-License-Identifier: Apache-2.0
#pragma once
// Given weights from which a job starts instead of random ones.

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/spec/spec.h"
#include "worker/exchange/model_source.h"
#include "worker/trainer/job_config.h"
#include "worker/trainer/rank_engine.h"

namespace stretto::trainer {

// Opens config.initial_weights, which must be weights of the job's model (CheckSameModel). Errors,
// marked by OfWeights: those of OpenModel and CheckSameModel.
absl::StatusOr<std::unique_ptr<ModelSource>> OpenInitialWeights(const JobConfig& config);

// Returns InvalidArgument with the source's file and every field that differs, found and expected.
// The stored type and dropout may differ, and the job's sequence_length may be shorter: a gpt then
// takes the first rows of the position embedding.
absl::Status CheckSameModel(const ModelSource& source, const ModelSpec& expected);

// Reads this rank's shards directly from the source, one tensor at a time, and sets moments to
// zero. Errors, marked by OfWeights: those of ModelSource::Read.
absl::Status ReadWeights(const ModelSource& source, RankEngine& engine);

}  // namespace stretto::trainer
