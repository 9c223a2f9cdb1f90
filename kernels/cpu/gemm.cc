#include "kernels/cpu/cpu_ops_impl.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/thread_buffers.h"
#include "kernels/cpu/vector_math.h"

namespace stretto::cpu {

namespace {

const float* Converted(const TensorView& tensor, Buffer use) {
  if (tensor.data == nullptr) return nullptr;
  auto* floats =
      static_cast<float*>(ThreadBuffer(use, static_cast<size_t>(tensor.count()) * sizeof(float)));
  ToFloats(tensor.as<BF16>(), tensor.count(), floats);
  return floats;
}

// y = x * W (+ bias), W = w[n,k]^T where transposed, else w[k,n].
void Rows(bool bf16_matmul, bool transposed, const TensorView& x, const TensorView& w,
          const TensorView& bias, const TensorView& y) {
  STRETTO_CHECK(x.dtype == w.dtype && x.dtype == y.dtype);
  STRETTO_CHECK(bias.data == nullptr || (bias.dtype == x.dtype && bias.count() == y.columns()));
  STRETTO_CHECK(x.rows() == y.rows());
  STRETTO_CHECK(w.rows() == (transposed ? y.columns() : x.columns()));
  STRETTO_CHECK(w.columns() == (transposed ? x.columns() : y.columns()));
  RowProduct product{.dtype = x.dtype,
                     .n = y.columns(),
                     .k = x.columns(),
                     .transposed = transposed,
                     .bias = bias.data != nullptr};
  if (x.dtype == DType::kF32 || bf16_matmul) {
    MultiplyRows(product, x.rows(), x.data, w.data, bias.data, y.data);
    return;
  }
  product.dtype = DType::kF32;
  auto* floats = static_cast<float*>(
      ThreadBuffer(Buffer::kConvertedY, static_cast<size_t>(y.count()) * sizeof(float)));
  MultiplyRows(product, x.rows(), Converted(x, Buffer::kConvertedX),
               Converted(w, Buffer::kConvertedW), Converted(bias, Buffer::kConvertedBias), floats);
  FromFloats(floats, y.count(), y.as<BF16>());
}

}  // namespace

void CpuOps::Gemm(TensorView x, TensorView w, TensorView bias, TensorView y) {
  Rows(bf16_matmul_, true, x, w, bias, y);
}

void CpuOps::GemmDgrad(TensorView dy, TensorView w, TensorView dx) {
  Rows(bf16_matmul_, false, dy, w, {}, dx);
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
  const bool f32 = x.dtype == DType::kF32;
  const float* dy_floats = f32 ? dy.as<float>() : Converted(dy, Buffer::kConvertedY);
  const float* x_floats = f32 ? x.as<float>() : Converted(x, Buffer::kConvertedX);
  Multiply(c, k, n, 1.0f, {.data = dy_floats, .ld = c, .transposed = true},
           {.data = x_floats, .ld = k}, 1.0f, dw.as<float>(), k);
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

}  // namespace stretto::cpu
