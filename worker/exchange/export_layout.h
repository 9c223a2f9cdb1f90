// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tensors of an export as boxes of parameters, which is how a source is read.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/engine/spec/spec.h"
#include "worker/exchange/stored_layout.h"

namespace stretto {

struct ExportBox {
  std::string parameter;
  std::vector<int64_t> starts, extents;

  int64_t count() const;
};

// A tensor to write. Its rows (columns, where layout.transposed) are those of the boxes, each dense
// and row-major, one after the other; rows beyond them are zeros.
struct ExportTensor {
  StoredLayout layout;
  std::vector<ExportBox> boxes;
  std::string dtype = {};  // as in safetensors; empty until someone has said

  int64_t count() const;
  int64_t bytes() const;
};

// In the order of `layouts`, those of the model in some format. Pieces that lie in a parameter at
// equal distances, as all queries do, become one box.
std::vector<ExportTensor> ExportTensors(const ModelSpec& model,
                                        const std::vector<StoredLayout>& layouts);

// Calls run for parts of a box of that tensor, each of at most so many elements: whole rows in
// order where it can, whole columns where the layout is transposed, so that a source that is too is
// read along its rows.
absl::Status ForEachBlock(const StoredLayout& layout, const ExportBox& box, int64_t elements,
                          const std::function<absl::Status(const ExportBox&)>& run);

// What `transformers` has no such model for; llm.c is GPT-2 and nothing else. Errors:
// InvalidArgument naming the field.
absl::Status CheckHf(const ModelSpec& model);
absl::Status CheckLlmc(const ModelSpec& model);

}  // namespace stretto
