// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether the tokens of the data mean to the initial weights what they mean to the data.

#include <string>

#include "absl/status/status.h"
#include "worker/data/training_data.h"
#include "worker/trainer/attachments.h"

namespace stretto::trainer {

// Compares the hash of the data's tokenizer with those of the tokenizer's files that came with the
// weights, tokenizer.json and tokenizer.model, one of which it must be. Bytes differ from every
// tokenizer that has files. A tokenizer that is not known, of the data (no note) or of the weights
// (no such file), is not compared. Errors: FailedPrecondition (they differ; names both, with their
// hashes), those of ReadTokenizerInfo and ReadAttachment.
absl::Status CheckTokenizerOfWeights(const TrainingData& data, const Origin& weights);

}  // namespace stretto::trainer
