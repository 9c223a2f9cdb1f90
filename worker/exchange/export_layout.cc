// SPDX-License-Identifier: Apache-2.0

// Converts each piece of a tensor's layout to a box of our parameter and joins boxes that are
// adjacent along the first dimension. ForEachBlock divides a box along its dimensions into blocks
// of bounded size. CheckHf and CheckLlmc refuse models that the formats cannot represent.

#include "worker/exchange/export_layout.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "proto/spec/fields.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/exchange/parameter_table.h"

namespace stretto {
namespace {

int64_t Product(const std::vector<int64_t>& extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

// `vector`: for a norm or bias, whose rows are its elements.
ExportBox BoxOf(const RowRange& piece, const std::vector<int64_t>& shape, bool vector) {
  const size_t row_dims = shape.size() - (vector ? 0 : 1);
  ExportBox box{piece.parameter, std::vector<int64_t>(shape.size(), 0), shape};
  const size_t inner = row_dims - 1;
  const int64_t index = piece.row / shape[inner];
  box.starts[inner] = piece.row % shape[inner];
  box.extents[inner] = piece.rows;
  STRETTO_CHECK(row_dims <= 2 && box.starts[inner] + piece.rows <= shape[inner]);
  if (row_dims == 2) {
    box.starts[0] = index;
    box.extents[0] = 1;
  }
  return box;
}

// Appends `next` to `box` if it is the same box one further along the first dimension. Returns
// whether it did.
bool Join(const ExportBox& next, ExportBox* box) {
  if (next.starts.size() < 2 || next.parameter != box->parameter || next.extents[0] != 1 ||
      next.starts[0] != box->starts[0] + box->extents[0]) {
    return false;
  }
  for (size_t i = 1; i < next.starts.size(); ++i) {
    if (next.starts[i] != box->starts[i] || next.extents[i] != box->extents[i]) return false;
  }
  ++box->extents[0];
  return true;
}

// Divides along the first of the dimensions, and parts that are still too large along the next
// ones.
absl::Status CutAlong(std::span<const size_t> dimensions, const ExportBox& box, int64_t elements,
                      const std::function<absl::Status(const ExportBox&)>& run) {
  if (dimensions.empty() || box.count() <= elements) return run(box);
  const size_t cut = dimensions.front();
  const int64_t extent = box.extents[cut];
  const int64_t step = std::max<int64_t>(1, elements / (box.count() / extent));
  for (int64_t begin = 0; begin < extent; begin += step) {
    ExportBox block = box;
    block.starts[cut] += begin;
    block.extents[cut] = std::min(extent - begin, step);
    RETURN_IF_ERROR(CutAlong(dimensions.subspan(1), block, elements, run));
  }
  return absl::OkStatus();
}

absl::Status Unlike(const char* format, const char* field, absl::string_view found,
                    absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat(format, " cannot hold this model: ", field,
                                                 ": found ", found, ", expected ", expected));
}

// A number for which the format has no key must be the default. `keys`: none where null.
absl::Status CheckNumbers(const ModelSpec& model, const char* format,
                          const char* HuggingFaceKeys::*keys) {
  for (const ModelNumber& number : kModelNumbers) {
    const HuggingFaceKeys& known = FindField(absl::StrCat("model.", number.name))->hugging_face;
    if (number.IsDefault(model) || (keys != nullptr && known.*keys != nullptr)) continue;
    return Unlike(format, number.name, absl::StrFormat("%.9g", model.*number.member),
                  absl::StrFormat("%.9g", number.Default()));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t ExportBox::count() const { return Product(extents); }
int64_t ExportTensor::count() const { return Product(layout.shape); }
int64_t ExportTensor::bytes() const { return count() * DtypeBits(dtype) / 8; }

std::vector<ExportTensor> ExportTensors(const ModelSpec& model,
                                        const std::vector<StoredLayout>& layouts) {
  const ParameterTable table(model);
  std::vector<ExportTensor> tensors;
  for (const StoredLayout& layout : layouts) {
    ExportTensor tensor{layout, {}, ""};
    for (const RowRange& piece : layout.pieces) {
      ExportBox box =
          BoxOf(piece, table.parameters().at(piece.parameter).shape, layout.shape.size() == 1);
      if (tensor.boxes.empty() || !Join(box, &tensor.boxes.back())) {
        tensor.boxes.push_back(std::move(box));
      }
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

absl::Status ForEachBlock(const StoredLayout& layout, const ExportBox& box, int64_t elements,
                          const std::function<absl::Status(const ExportBox&)>& run) {
  std::vector<size_t> order(box.extents.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (layout.transposed) std::rotate(order.begin(), order.end() - 1, order.end());
  return CutAlong(order, box, elements, run);
}

absl::Status CheckHf(const ModelSpec& model) {
  const HfFamily& hf = HfFamilyOf(model.architecture.family);
  if (!hf.shares_keys && model.key_heads() != model.heads) {
    return Unlike(hf.architecture, "kv_heads", absl::StrCat(model.key_heads()),
                  absl::StrCat(model.heads, ", as many as heads"));
  }
  return CheckNumbers(model, hf.architecture, hf.keys);
}

absl::Status CheckLlmc(const ModelSpec& model) {
  if (model.architecture.family != Family::kGpt) {
    return Unlike("llm.c", "family", model.architecture.name,
                  "gpt, the only one that its checkpoints have");
  }
  if (!model.head_is_tied()) {
    return Unlike("llm.c", "tied_head", "false", "true: its head is the token embedding");
  }
  if (model.key_heads() != model.heads) {
    return Unlike("llm.c", "kv_heads", absl::StrCat(model.key_heads()),
                  absl::StrCat(model.heads, ", as many as heads"));
  }
  if (model.ffn_hidden != 4 * model.hidden) {
    return Unlike("llm.c", "ffn_hidden", absl::StrCat(model.ffn_hidden),
                  absl::StrCat(4 * model.hidden, ", 4 times hidden"));
  }
  return CheckNumbers(model, "llm.c", nullptr);
}

}  // namespace stretto
