// SPDX-License-Identifier: Apache-2.0
#pragma once
// Weights of any stored format, read as the parameters of worker/engine/model.

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

// Thread-safe once open. Keeps no weights in memory.
class ModelSource {
 public:
  virtual ~ModelSource() = default;

  // The name that it was opened by: "hf:gpt2", "llmc:gpt2_124M.bin",
  // "checkpoints/gpt/step-00000100".
  virtual const std::string& name() const = 0;
  // sequence_length is the maximum of the weights; dropout is 0.
  virtual const ModelSpec& model() const = 0;
  // The type of the stored weights, as in safetensors: "F32", "BF16" or "F16"; "F32" if they
  // differ.
  virtual const std::string& dtype() const = 0;
  // The type of one parameter of the model, which an export writes by default.
  virtual const std::string& dtype_of(absl::string_view /*parameter*/) const { return dtype(); }

  // Reads the box (starts, extents) of the parameter with that name (ParametersOf for one rank),
  // dense and row-major, widened to f32; rows of the vocabulary's padding are zeros. Errors:
  // NotFound (no such parameter), InvalidArgument (a box outside its shape), DataLoss, Unavailable.
  virtual absl::Status Read(absl::string_view parameter, const std::vector<int64_t>& starts,
                            const std::vector<int64_t>& extents, float* out) const = 0;

  // Returns the absolute paths of its tokenizer's files (kTokenizerFiles); empty if it has none.
  virtual std::vector<std::string> tokenizer_files() const = 0;
};

// Opens "hf:FOLDER", "llmc:FILE", or the folder of a checkpoint (of a job: its newest). Checks
// everything except the weights themselves: the configuration, and that every parameter is there
// with its shape and a known type. Errors: NotFound and the like, InvalidArgument (names file, key
// or tensor, found and expected), FailedPrecondition (a checkpoint without a model note).
absl::StatusOr<std::unique_ptr<ModelSource>> OpenModel(const std::string& name);

}  // namespace stretto
