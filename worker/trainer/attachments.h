// SPDX-License-Identifier: Apache-2.0
#pragma once
// The files that a checkpoint has about its model: a note (model.json) and the tokenizer's files.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/engine/spec/spec.h"
#include "worker/exchange/model_source.h"

namespace stretto::trainer {

// Properties of the weights that training starts or resumes from, and the files beside them.
struct Origin {
  std::string dtype = "F32";                 // the type that they were stored in
  std::string tokenizer;                     // as ModelNote::tokenizer
  std::vector<std::string> tokenizer_files;  // paths
  // The folder that links of these files may not leave; empty: the folder of each file.
  std::string root = {};
};
// `root` is that of the origin.
Origin OriginOf(const ModelSource& source, const std::string& root = "");

// Reads a file of at most 64 MiB. It follows links only within `root` or, if that is empty, within
// the file's folder. Errors: InvalidArgument (a larger file), PermissionDenied (a link that leads
// outside), those of reading.
absl::StatusOr<Attachment> ReadAttachment(const std::string& path, const std::string& root);

// Returns the attachments of a job's checkpoints. The tokenizer is that of the data set at
// data_prefix (PREFIX.tokenizer.json says "bytes", or PREFIX.tokenizer/ has kTokenizerFiles);
// otherwise, and when data_prefix is empty, it is the one that came with the weights. data_root is
// the data set's Origin::root. Errors: InvalidArgument (a file of more than 64 MiB),
// PermissionDenied (a link that leads outside), those of reading.
absl::StatusOr<std::vector<Attachment>> AttachmentsOf(const ModelSpec& model, const Origin& origin,
                                                      const std::string& data_prefix,
                                                      const std::string& data_root = "");

}  // namespace stretto::trainer
