// SPDX-License-Identifier: Apache-2.0
#pragma once
// Matrix products by oneDNN on the calling thread. Matrices are dense and row-major. Compiled
// products are kept per thread, by shape.

#include <compare>
#include <cstdint>
#include <string>

#include "kernels/dtype.h"

namespace stretto::cpu {

class PackedWeights;

// y[rows, n] = x[rows, k] * W (+ bias[n]), where W = w[n, k]^T if `transposed`, else w[k, n]. A row
// of the stored w has w_columns elements, of which only the first may be used. x, bias and y are of
// `dtype`, f32 or bf16 (which needs HasBF16Matmul); w is of that type or bf16. Sums are f32 and
// rounded once.
struct RowProduct {
  DType dtype = DType::kF32;
  DType w_dtype = DType::kF32;
  int64_t n = 0;
  int64_t k = 0;
  int64_t w_columns = 0;
  bool transposed = false;
  bool bias = false;

  auto operator<=>(const RowProduct&) const = default;
};

// Multiplies; the bits of a row do not depend on `rows`. bias may be null if the product has none.
// Packed forms of w are kept in *packed.
void MultiplyRows(const RowProduct& product, int64_t rows, const void* x, const void* w,
                  const void* bias, void* y, PackedWeights* packed);

// dw[c, k] (f32) += dy[n, c]^T * x[n, k], both bf16.
void AccumulateOuterBF16(int64_t n, int64_t c, int64_t k, const void* dy, const void* x, float* dw);

// c[m, n] = alpha * A * B + beta * c in f32 with leading dimensions lda, ldb, ldc. A = a[m, k] or,
// if transposed, a[k, m]^T; B likewise.
struct Operand {
  const float* data = nullptr;
  int64_t ld = 0;
  bool transposed = false;
};
void Multiply(int64_t m, int64_t n, int64_t k, float alpha, const Operand& a, const Operand& b,
              float beta, float* c, int64_t ldc);

// Whether oneDNN uses AVX-512 on this CPU (DNNL_MAX_CPU_ISA may forbid it).
bool HasAvx512();
// Whether the CPU has bf16 products, and whether they are faster than those in f32.
bool HasBF16Matmul();
bool HasFastBF16Matmul();

}  // namespace stretto::cpu
