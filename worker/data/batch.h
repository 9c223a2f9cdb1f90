// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto data batch`: shows the samples that a step of training consumes.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "proto/document/document.h"
#include "worker/data/training_data.h"

namespace stretto {

struct BatchOptions {
  DataConfig data;        // of the job
  int64_t sequences = 0;  // of a step, including all its micro-batches
  int64_t step = 1;       // from 1
  int64_t tokens = 16;    // number of tokens to show of each sample
  OutputFormat format = OutputFormat::kTable;
};

// Returns the samples, as text or as a document, in the order in which the step's micro-batches
// consume them: the number of the sample in the whole run, its data set, the position of its first
// token there, and its first tokens. Errors: those of TrainingData::Open and of Sampler::ReadBatch.
absl::StatusOr<std::string> DescribeBatch(const BatchOptions& options);

}  // namespace stretto
