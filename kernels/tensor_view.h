// SPDX-License-Identifier: Apache-2.0
#pragma once
// A contiguous tensor in borrowed memory. Row-major; the last dimension is dense.

#include <array>
#include <cstdint>

#include "kernels/dtype.h"
#include "proto/base/check.h"

namespace stretto {

struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  std::array<int64_t, 4> shape = {0, 1, 1, 1};
  int rank = 1;

  int64_t count() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= shape[static_cast<size_t>(i)];
    return n;
  }
  int64_t bytes() const { return count() * static_cast<int64_t>(SizeOf(dtype)); }
  // The size of the last dimension, and the product of all others.
  int64_t columns() const { return shape[static_cast<size_t>(rank - 1)]; }
  int64_t rows() const { return columns() == 0 ? 0 : count() / columns(); }

  template <class T>
  T* as() const {
    STRETTO_CHECK(sizeof(T) == SizeOf(dtype));
    return static_cast<T*>(data);
  }
};

}  // namespace stretto
