// SPDX-License-Identifier: Apache-2.0
#pragma once
// Access by rows to operands that may be blocked (ops.h).

#include <cstdint>
#include <cstring>

#include "kernels/cpu/thread_buffers.h"
#include "kernels/cpu/vector_math.h"
#include "kernels/tensor_view.h"

namespace stretto::cpu {

// Presents every row as one dense row, so that loops, and therefore bits, are those of the plain
// layout. The pieces of a blocked row are copied into a buffer of the calling thread.
template <class T>
class DenseRows {
 public:
  // view: [n, columns], or [p][n][columns/p].
  DenseRows(const TensorView& view, int64_t columns)
      : data_(view.as<T>()),
        pieces_(view.rank == 3 ? view.shape[0] : 1),
        width_(columns / pieces_),
        rows_(view.count() / columns) {
    STRETTO_CHECK(width_ * pieces_ == columns && rows_ * columns == view.count());
    STRETTO_CHECK(pieces_ == 1 || view.columns() == width_);
    if (pieces_ > 1) {
      row_ = static_cast<T*>(ThreadBuffer(Buffer::kDenseRow, columns * sizeof(T)));
    }
  }

  // The result is valid until the next call.
  const T* Row(int64_t row) const {
    if (pieces_ == 1) return data_ + row * width_;
    for (int64_t piece = 0; piece < pieces_; ++piece) {
      std::memcpy(row_ + piece * width_, data_ + (piece * rows_ + row) * width_,
                  width_ * sizeof(T));
    }
    return row_;
  }

 private:
  const T* data_;
  int64_t pieces_, width_, rows_;
  T* row_ = nullptr;
};

}  // namespace stretto::cpu

namespace stretto::cpu::STRETTO_CPU_OPS {

// Calls visit(row of dy, row of x, row number) for all rows, ascending. dy is [n, columns] and may
// be blocked; x has the same type.
template <class Visit>
void ForEachRow(const TensorView& dy, const TensorView& x, const Visit& visit) {
  WithType(x.dtype, [&](auto type) {
    using T = decltype(type);
    const DenseRows<T> dys(dy, x.columns());
    for (int64_t row = 0; row < x.rows(); ++row) {
      visit(dys.Row(row), x.as<T>() + row * x.columns(), row);
    }
  });
}

}  // namespace stretto::cpu::STRETTO_CPU_OPS
