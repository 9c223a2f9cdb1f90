// SPDX-License-Identifier: Apache-2.0
#pragma once
// A source of weights in a format whose tensors are our parameters in another order: Hugging Face
// and llm.c.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "worker/exchange/model_source.h"
#include "worker/exchange/stored_layout.h"

namespace stretto {

// A tensor of a file, dense and row-major.
struct MappedTensor {
  StoredLayout layout;
  std::string dtype;  // "F32", "BF16" or "F16"
  // Copies `count` bytes, starting at byte `begin` of the tensor. Thread-safe.
  std::function<absl::Status(int64_t begin, int64_t count, void* out)> read;
};

// `tensors` must have all layouts of the model in the format. Reads through a buffer of a few
// megabytes, whatever the size of a tensor.
std::unique_ptr<ModelSource> MakeMappedSource(std::string name, const ModelSpec& model,
                                              std::vector<MappedTensor> tensors,
                                              std::vector<std::string> tokenizer_files);

}  // namespace stretto
