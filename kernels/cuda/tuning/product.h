// SPDX-License-Identifier: Apache-2.0
#pragma once
// A matrix product of Ops in the terms of cuBLASLt, which stores by columns:
//
//   d[m,n] = op(a)[m,k] op(b)[k,n] (+ bias[m] in every column) (+ d)
//
// Element (i, j) of a matrix is at i + j * ld; op transposes the stored matrix. A row-major tensor
// [r,c] is the column-major matrix [c,r] with ld = c, so nothing is copied: tokens are columns of d
// in Gemm and GemmDgrad, and the inner dimension in GemmWgrad.

#include <compare>
#include <cstdint>

#include "kernels/tensor_view.h"

namespace stretto::cuda {

// Everything that the choice of an algorithm may depend on, except addresses.
struct Product {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t lda = 0, ldb = 0, ldd = 0;
  DType in = DType::kF32;   // of a and b
  DType out = DType::kF32;  // of d and bias
  bool bias = false;
  bool accumulate = false;  // beta is 1, otherwise 0
  // The largest power of two, at most 16 bytes, that divides every address and every column's
  // length.
  int alignment = 16;

  auto operator<=>(const Product&) const = default;
};

// A product and the addresses of its operands; bias may be null.
struct ProductCall {
  Product product;
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;
  void* d = nullptr;
};

// The products that Ops::Gemm, GemmDgrad and GemmWgrad define. CHECK shapes and types.
ProductCall ForwardProduct(TensorView x, TensorView w, TensorView bias, TensorView y);
ProductCall DgradProduct(TensorView dy, TensorView w, int64_t first_column, TensorView dx);
ProductCall WgradProduct(TensorView dy, TensorView x, TensorView dw);

// Whether tokens are the columns of d, so that slices of a batch differ only in n.
inline bool TokensAreColumns(const Product& product) { return !product.accumulate; }

}  // namespace stretto::cuda
