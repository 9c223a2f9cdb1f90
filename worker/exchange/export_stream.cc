// SPDX-License-Identifier: Apache-2.0
#include "worker/exchange/export_stream.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/exchange/export_numbers.h"

namespace stretto {
namespace {

constexpr int64_t kBlockElements = int64_t{8} << 20;  // 32 MB in f32
constexpr int64_t kTile = 32;                         // side of a tile that stays in cache

// Transposes a matrix; rows of the result are `stride` apart.
template <class T>
void TransposeInto(const T* in, int64_t rows, int64_t columns, int64_t stride, T* out) {
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
      for (int64_t c = c0; c < std::min(columns, c0 + kTile); ++c) {
        for (int64_t r = r0; r < std::min(rows, r0 + kTile); ++r) {
          out[c * stride + r] = in[r * columns + c];
        }
      }
    }
  }
}

// Returns the offset of the block's first element within the box.
int64_t OffsetIn(const ExportBox& box, const ExportBox& block) {
  int64_t offset = 0;
  for (size_t i = 0; i < box.extents.size(); ++i) {
    offset = offset * box.extents[i] + block.starts[i] - box.starts[i];
  }
  return offset;
}

}  // namespace

absl::Status ExportMeter::Add(int64_t bytes) {
  bytes_ += bytes;
  if (options_.progress) options_.progress(bytes_, total_bytes_);
  if (options_.cancelled && options_.cancelled()) {
    return absl::CancelledError(absl::StrCat(options_.output, ": interrupted, nothing is left"));
  }
  return absl::OkStatus();
}

ExportStream::ExportStream(const ModelSource& source, const std::vector<ExportTensor>& tensors,
                           ExportMeter* meter)
    : source_(source), meter_(meter) {
  int64_t largest = 0;
  for (const ExportTensor& tensor : tensors) largest = std::max(largest, tensor.bytes());
  tensor_.resize(largest);
}

absl::StatusOr<const void*> ExportStream::Fetch(const ExportTensor& tensor) {
  const int64_t item = DtypeBits(tensor.dtype) / 8;
  int64_t done = 0;
  for (const ExportBox& box : tensor.boxes) {
    const int64_t begin = done;
    RETURN_IF_ERROR(ForEachBlock(tensor.layout, box, kBlockElements, [&](const ExportBox& block) {
      const int64_t at = begin + OffsetIn(box, block);
      RETURN_IF_ERROR(FetchBlock(tensor, block, at));
      done += block.count();
      return meter_->Add(block.count() * item);
    }));
  }
  if (const int64_t rest = tensor.count() - done; rest > 0) {
    std::fill_n(tensor_.begin() + done * item, rest * item, '\0');
    RETURN_IF_ERROR(meter_->Add(rest * item));
  }
  return tensor_.data();
}

// `begin`: offset of the block's first element over all boxes.
absl::Status ExportStream::FetchBlock(const ExportTensor& tensor, const ExportBox& block,
                                      int64_t begin) {
  const int64_t count = block.count(), item = DtypeBits(tensor.dtype) / 8;
  wide_.resize(count);
  RETURN_IF_ERROR(source_.Read(block.parameter, block.starts, block.extents, wide_.data()));
  char* out = tensor_.data() + begin * item;
  if (tensor.layout.transposed) {
    narrow_.resize(count * item);
    out = narrow_.data();
  }
  if (const auto bad = NarrowTo(tensor.dtype, wide_, out)) {
    return absl::InvalidArgumentError(absl::StrCat(source_.name(), ": tensor ", tensor.layout.name,
                                                   ": found ", wide_[*bad],
                                                   ", expected a value within ", tensor.dtype));
  }
  if (!tensor.layout.transposed) return absl::OkStatus();
  const int64_t stride = tensor.layout.shape[1], columns = block.extents.back();
  const int64_t row = begin / tensor.layout.shape[0], column = begin % tensor.layout.shape[0];
  out = tensor_.data() + (column * stride + row) * item;
  if (item == 4) {
    TransposeInto(reinterpret_cast<const uint32_t*>(narrow_.data()), count / columns, columns,
                  stride, reinterpret_cast<uint32_t*>(out));
  } else {
    TransposeInto(reinterpret_cast<const uint16_t*>(narrow_.data()), count / columns, columns,
                  stride, reinterpret_cast<uint16_t*>(out));
  }
  return absl::OkStatus();
}

}  // namespace stretto
