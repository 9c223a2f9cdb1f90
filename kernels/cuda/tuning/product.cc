// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/tuning/product.h"

#include <bit>

namespace stretto::cuda {
namespace {

int64_t ColumnBytes(int64_t ld, DType dtype) { return ld * static_cast<int64_t>(SizeOf(dtype)); }

// Sets the alignment, the last field that follows from the others.
ProductCall Aligned(ProductCall call) {
  Product& p = call.product;
  auto bits = static_cast<uint64_t>(16 | ColumnBytes(p.lda, p.in) | ColumnBytes(p.ldb, p.in) |
                                    ColumnBytes(p.ldd, p.out));
  for (const void* address : {call.a, call.b, call.bias, static_cast<const void*>(call.d)})
    bits |= reinterpret_cast<uintptr_t>(address);
  p.alignment = 1 << std::countr_zero(bits);
  return call;
}

}  // namespace

ProductCall ForwardProduct(TensorView x, TensorView w, TensorView bias, TensorView y) {
  STRETTO_CHECK(x.dtype == w.dtype && x.dtype == y.dtype);
  STRETTO_CHECK(w.columns() == x.columns() && w.rows() == y.columns() && x.rows() == y.rows());
  const bool biased = bias.data != nullptr;
  STRETTO_CHECK(!biased || (bias.dtype == y.dtype && bias.count() == y.columns()));
  return Aligned({.product = {.m = y.columns(),
                              .n = x.rows(),
                              .k = x.columns(),
                              .transpose_a = true,
                              .lda = w.columns(),
                              .ldb = x.columns(),
                              .ldd = y.columns(),
                              .in = x.dtype,
                              .out = y.dtype,
                              .bias = biased},
                  .a = w.data,
                  .b = x.data,
                  .bias = bias.data,
                  .d = y.data});
}

ProductCall DgradProduct(TensorView dy, TensorView w, int64_t first_column, TensorView dx) {
  STRETTO_CHECK(dy.dtype == w.dtype && dy.dtype == dx.dtype);
  STRETTO_CHECK(w.rows() == dy.columns() && dy.rows() == dx.rows());
  STRETTO_CHECK(first_column >= 0 && first_column + dx.columns() <= w.columns());
  return Aligned({.product = {.m = dx.columns(),
                              .n = dy.rows(),
                              .k = dy.columns(),
                              .lda = w.columns(),
                              .ldb = dy.columns(),
                              .ldd = dx.columns(),
                              .in = dy.dtype,
                              .out = dx.dtype},
                  .a = static_cast<const char*>(w.data) + ColumnBytes(first_column, w.dtype),
                  .b = dy.data,
                  .d = dx.data});
}

ProductCall WgradProduct(TensorView dy, TensorView x, TensorView dw) {
  STRETTO_CHECK(dy.dtype == x.dtype && dy.rows() == x.rows());
  STRETTO_CHECK(dw.dtype == DType::kF32);
  STRETTO_CHECK(dw.rows() == dy.columns() && dw.columns() == x.columns());
  return Aligned({.product = {.m = x.columns(),
                              .n = dy.columns(),
                              .k = x.rows(),
                              .transpose_b = true,
                              .lda = x.columns(),
                              .ldb = dy.columns(),
                              .ldd = dw.columns(),
                              .in = x.dtype,
                              .out = DType::kF32,
                              .accumulate = true},
                  .a = x.data,
                  .b = dy.data,
                  .d = dw.data});
}

}  // namespace stretto::cuda
