// SPDX-License-Identifier: Apache-2.0
#pragma once
// Weights to read, in whatever format they lie, as the parameters of worker/engine/model.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/tokenizer_files.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

// Thread-safe once open. Holds no weights in memory.
class ModelSource {
 public:
  virtual ~ModelSource() = default;

  // As it was named: "hf:gpt2", "llmc:gpt2_124M.bin", "checkpoints/gpt/step-00000100".
  virtual const std::string& name() const = 0;
  // sequence_length is the longest that the weights are for; dropout is 0.
  virtual const ModelSpec& model() const = 0;
  // Of the stored weights, as in safetensors: "F32", "BF16" or "F16"; "F32" where they differ.
  virtual const std::string& dtype() const = 0;
  // Of one parameter's: what an export writes unless told otherwise. It must be one of the model's.
  virtual const std::string& dtype_of(absl::string_view /*parameter*/) const { return dtype(); }

  // The box (starts, extents) of the parameter of that name (ParametersOf of one rank), dense and
  // row-major, widened to f32; rows of the vocabulary's padding are zeros. Errors: NotFound (no
  // such parameter), InvalidArgument (a box outside its shape), DataLoss, Unavailable.
  virtual absl::Status Read(absl::string_view parameter, const std::vector<int64_t>& starts,
                            const std::vector<int64_t>& extents, float* out) const = 0;

  // Files that make up its tokenizer (kTokenizerFiles), absolute paths; none if it has none.
  virtual std::vector<std::string> tokenizer_files() const = 0;
};

// "hf:FOLDER", "llmc:FILE", or the folder of a checkpoint (of a job: its newest). Everything but
// the weights themselves is checked: configuration, that every parameter is there, with its shape
// and in a known type. Errors: NotFound and the like, InvalidArgument (names file, key or tensor,
// found and expected), FailedPrecondition (a checkpoint that does not say its model).
absl::StatusOr<std::unique_ptr<ModelSource>> OpenModel(const std::string& name);

}  // namespace stretto
