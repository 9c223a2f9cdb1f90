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

// A tensor to write. Its rows (columns, if layout.transposed) are those of the boxes in sequence,
// each dense and row-major; further rows are zeros.
struct ExportTensor {
  StoredLayout layout;
  std::vector<ExportBox> boxes;
  std::string dtype = {};  // as in safetensors; empty until it is chosen

  int64_t count() const;
  int64_t bytes() const;
};

// Returns tensors in the order of `layouts`, which are those of the model in some format. Pieces at
// equal distances in a parameter, such as all queries, become one box.
std::vector<ExportTensor> ExportTensors(const ModelSpec& model,
                                        const std::vector<StoredLayout>& layouts);

// Calls run for parts of a box of that tensor, each of at most `elements` elements: whole rows in
// order if possible, or whole columns if the layout is transposed, so that a source with the same
// layout is read along its rows.
absl::Status ForEachBlock(const StoredLayout& layout, const ExportBox& box, int64_t elements,
                          const std::function<absl::Status(const ExportBox&)>& run);

// Checks that the format can represent the model; llm.c is GPT-2 only. Errors: InvalidArgument,
// naming the field.
absl::Status CheckHf(const ModelSpec& model);
absl::Status CheckLlmc(const ModelSpec& model);

}  // namespace stretto
