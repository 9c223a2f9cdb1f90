#include "worker/trainer/exchange/export_stream.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/trainer/checkpoint/safetensors.h"
#include "worker/trainer/exchange/export_numbers.h"

namespace stretto {
namespace {

constexpr int64_t kBlockElements = int64_t{8} << 20;  // 32 MB in f32
constexpr int64_t kTile = 32;                         // rows and columns that stay in cache

// Rows [first, first + rows) of a matrix with `columns`, into its transpose, which has `stride`
// columns.
template <class T>
void TransposeInto(const T* in, int64_t first, int64_t rows, int64_t columns, int64_t stride,
                   T* out) {
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
      for (int64_t c = c0; c < std::min(columns, c0 + kTile); ++c) {
        for (int64_t r = r0; r < std::min(rows, r0 + kTile); ++r) {
          out[c * stride + first + r] = in[r * columns + c];
        }
      }
    }
  }
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
                           std::string dtype, ExportMeter* meter)
    : source_(source), dtype_(std::move(dtype)), item_(DtypeBits(dtype_) / 8), meter_(meter) {
  int64_t largest = 0;
  for (const ExportTensor& tensor : tensors) largest = std::max(largest, tensor.count());
  tensor_.resize(static_cast<size_t>(largest * item_));
}

absl::StatusOr<const void*> ExportStream::Fetch(const ExportTensor& tensor) {
  int64_t done = 0;
  for (const ExportBox& box : tensor.boxes) {
    RETURN_IF_ERROR(ForEachBlock(box, kBlockElements, [&](const ExportBox& block) {
      RETURN_IF_ERROR(FetchBlock(tensor, block, done));
      done += block.count();
      return meter_->Add(block.count() * item_);
    }));
  }
  if (const int64_t rest = tensor.count() - done; rest > 0) {
    std::fill_n(tensor_.begin() + done * item_, rest * item_, '\0');
    RETURN_IF_ERROR(meter_->Add(rest * item_));
  }
  return tensor_.data();
}

// `begin`: of the block's first element among those of all boxes.
absl::Status ExportStream::FetchBlock(const ExportTensor& tensor, const ExportBox& block,
                                      int64_t begin) {
  const int64_t count = block.count();
  wide_.resize(static_cast<size_t>(count));
  RETURN_IF_ERROR(source_.Read(block.parameter, block.starts, block.extents, wide_.data()));
  char* out = tensor_.data() + begin * item_;
  if (tensor.layout.transposed) {
    narrow_.resize(static_cast<size_t>(count * item_));
    out = narrow_.data();
  }
  if (const auto bad = NarrowTo(dtype_, wide_, out)) {
    return absl::InvalidArgumentError(absl::StrCat(source_.name(), ": tensor ", tensor.layout.name,
                                                   ": found ", wide_[static_cast<size_t>(*bad)],
                                                   ", expected a value within ", dtype_));
  }
  if (!tensor.layout.transposed) return absl::OkStatus();
  const int64_t columns = tensor.layout.shape[0], stride = tensor.layout.shape[1];
  if (item_ == 4) {
    TransposeInto(reinterpret_cast<const uint32_t*>(narrow_.data()), begin / columns,
                  count / columns, columns, stride, reinterpret_cast<uint32_t*>(tensor_.data()));
  } else {
    TransposeInto(reinterpret_cast<const uint16_t*>(narrow_.data()), begin / columns,
                  count / columns, columns, stride, reinterpret_cast<uint16_t*>(tensor_.data()));
  }
  return absl::OkStatus();
}

}  // namespace stretto
