// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/cpu/cpu_ops_impl.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/thread_buffers.h"
#include "kernels/cpu/vector_math.h"

namespace stretto::cpu::STRETTO_CPU_OPS {

namespace {

// The number of rows that are converted to f32 at once, so that they stay in the second-level
// cache.
constexpr int64_t kConvertedRows = 256;

float* FloatBuffer(Buffer use, int64_t count) {
  return static_cast<float*>(ThreadBuffer(use, count * sizeof(float)));
}

const float* Converted(const BF16* from, int64_t count, Buffer use) {
  if (from == nullptr) return nullptr;
  float* const floats = FloatBuffer(use, count);
  ToFloats(from, count, floats);
  return floats;
}

// `product` gives type, form and weight shape; the rest follows from the views.
void Rows(RowProduct product, const TensorView& x, const TensorView& w, int64_t first_column,
          const TensorView& bias, const TensorView& y, PackedWeights* packed) {
  STRETTO_CHECK(x.dtype == w.dtype && x.dtype == y.dtype);
  STRETTO_CHECK(bias.data == nullptr || (bias.dtype == x.dtype && bias.count() == y.columns()));
  STRETTO_CHECK(x.rows() == y.rows());
  product.w_dtype = w.dtype;
  product.n = y.columns();
  product.k = x.columns();
  product.w_columns = w.columns();
  product.bias = bias.data != nullptr;
  const char* from =
      static_cast<const char*>(w.data) + first_column * static_cast<int64_t>(SizeOf(w.dtype));
  if (x.dtype == product.dtype) {
    MultiplyRows(product, x.rows(), x.data, from, bias.data, y.data, packed);
    return;
  }
  const float* const floats =
      Converted(static_cast<BF16*>(bias.data), product.n, Buffer::kConvertedBias);
  for (int64_t row = 0; row < x.rows(); row += kConvertedRows) {
    const int64_t rows = std::min(kConvertedRows, x.rows() - row);
    float* const out = FloatBuffer(Buffer::kConvertedY, rows * product.n);
    MultiplyRows(product, rows,
                 Converted(x.as<BF16>() + row * product.k, rows * product.k, Buffer::kConvertedX),
                 from, floats, out, packed);
    FromFloats(out, rows * product.n, y.as<BF16>() + row * product.n);
  }
}

}  // namespace

void CpuOps::WeightsChanged() { packed_.Changed(); }

void CpuOps::Gemm(TensorView x, TensorView w, TensorView bias, TensorView y) {
  STRETTO_CHECK(w.columns() == x.columns() && w.rows() == y.columns());
  Rows({.dtype = ProductType(x.dtype), .transposed = true}, x, w, 0, bias, y, &packed_);
}

void CpuOps::GemmDgrad(TensorView dy, TensorView w, int64_t first_column, TensorView dx) {
  STRETTO_CHECK(w.rows() == dy.columns() && w.columns() >= first_column + dx.columns());
  Rows({.dtype = ProductType(dy.dtype), .transposed = false}, dy, w, first_column, {}, dx,
       &packed_);
}

void CpuOps::GemmWgrad(TensorView dy, TensorView x, TensorView dw) {
  STRETTO_CHECK(dy.dtype == x.dtype && dy.rows() == x.rows());
  STRETTO_CHECK(dw.rows() == dy.columns() && dw.columns() == x.columns());
  STRETTO_CHECK(dw.dtype == DType::kF32);
  const int64_t n = x.rows(), c = dy.columns(), k = x.columns();
  if (x.dtype == DType::kBF16 && bf16_matmul_) {
    AccumulateOuterBF16(n, c, k, dy.data, x.data, dw.as<float>());
    return;
  }
  const auto add = [&](int64_t rows, const float* dy_rows, const float* x_rows) {
    Multiply(c, k, rows, 1.0f, {.data = dy_rows, .ld = c, .transposed = true},
             {.data = x_rows, .ld = k}, 1.0f, dw.as<float>(), k);
  };
  if (x.dtype == DType::kF32) {
    add(n, dy.as<float>(), x.as<float>());
    return;
  }
  add(n, Converted(dy.as<BF16>(), n * c, Buffer::kConvertedY),
      Converted(x.as<BF16>(), n * k, Buffer::kConvertedX));
}

void CpuOps::BiasGrad(TensorView dy, TensorView db) {
  STRETTO_CHECK(db.dtype == DType::kF32 && db.count() == dy.columns());
  const int64_t columns = dy.columns();
  float* sum = db.as<float>();
  WithType(dy.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t row = 0; row < dy.rows(); ++row) {
      const T* g = dy.as<T>() + row * columns;
#pragma omp simd
      for (int64_t i = 0; i < columns; ++i) sum[i] += ToFloat(g[i]);
    }
  });
}

}  // namespace stretto::cpu::STRETTO_CPU_OPS
