// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a job's checkpoints say of their model: its note (model.json) and its tokenizer's files.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/engine/spec/spec.h"
#include "worker/exchange/model_source.h"

namespace stretto::trainer {

// What came with the weights that training starts or goes on from.
struct Origin {
  std::string dtype = "F32";                 // that they were stored as
  std::string tokenizer;                     // as ModelNote::tokenizer
  std::vector<std::string> tokenizer_files;  // paths
  // Their links lead nowhere outside; empty: outside the folder they lie in.
  std::string root = {};
};
Origin OriginOf(const ModelSource& source);

// The tokenizer is that of the data set at data_prefix (PREFIX.tokenizer.json says "bytes", or
// kTokenizerFiles lie in PREFIX.tokenizer/); else, as where data_prefix is empty, the one that came
// with the weights. data_root is the data set's Origin::root. Errors: InvalidArgument (a file of
// more than 64 MiB), PermissionDenied (a link that leads outside), those of reading.
absl::StatusOr<std::vector<Attachment>> AttachmentsOf(const ModelSpec& model, const Origin& origin,
                                                      const std::string& data_prefix,
                                                      const std::string& data_root = "");

}  // namespace stretto::trainer
