// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "kernels/cpu/blocked.h"
#include "kernels/cpu/cpu_ops_impl.h"
#include "kernels/cpu/vector_math.h"

namespace stretto::cpu::STRETTO_CPU_OPS {

namespace {

template <class T>
void RmsRow(const T* x, const T* w, float epsilon, int64_t columns, T* y, float* rstd_out) {
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < columns; ++i) squares += ToFloat(x[i]) * ToFloat(x[i]);
  const float rstd = 1.0f / std::sqrt(squares / static_cast<float>(columns) + epsilon);
#pragma omp simd
  for (int64_t i = 0; i < columns; ++i) y[i] = FromFloat<T>(ToFloat(x[i]) * rstd * ToFloat(w[i]));
  *rstd_out = rstd;
}

// With n = x rstd and g = dy w: dx = residual + rstd (g - n mean(g n)).
template <class T>
void RmsRowGrad(const T* dy, const T* x, const T* w, float rstd, const T* residual, int64_t columns,
                T* dx) {
  float sum_gn = 0;
#pragma omp simd reduction(+ : sum_gn)
  for (int64_t i = 0; i < columns; ++i) {
    sum_gn += ToFloat(dy[i]) * ToFloat(w[i]) * (ToFloat(x[i]) * rstd);
  }
  const float mean_gn = sum_gn / static_cast<float>(columns);
  const auto gradient = [=](int64_t i) {
    return rstd * (ToFloat(dy[i]) * ToFloat(w[i]) - ToFloat(x[i]) * rstd * mean_gn);
  };
  if (residual != nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < columns; ++i) dx[i] = FromFloat<T>(ToFloat(residual[i]) + gradient(i));
  } else {
#pragma omp simd
    for (int64_t i = 0; i < columns; ++i) dx[i] = FromFloat<T>(gradient(i));
  }
}

}  // namespace

void CpuOps::RmsNorm(TensorView x, TensorView w, float epsilon, TensorView y, TensorView rstd) {
  STRETTO_CHECK(x.dtype == w.dtype && x.dtype == y.dtype);
  STRETTO_CHECK(w.count() == x.columns() && y.count() == x.count());
  STRETTO_CHECK(rstd.dtype == DType::kF32 && rstd.count() == x.rows());
  const int64_t columns = x.columns();
  WithType(x.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t row = 0; row < x.rows(); ++row) {
      RmsRow(x.as<T>() + row * columns, w.as<T>(), epsilon, columns, y.as<T>() + row * columns,
             rstd.as<float>() + row);
    }
  });
}

void CpuOps::RmsNormDgrad(TensorView dy, TensorView x, TensorView w, TensorView rstd,
                          TensorView residual, TensorView dx) {
  STRETTO_CHECK(dy.dtype == x.dtype && dy.dtype == w.dtype && dy.dtype == dx.dtype);
  STRETTO_CHECK(residual.data == nullptr || residual.dtype == dy.dtype);
  STRETTO_CHECK(dy.count() == x.count() && dx.count() == x.count() && w.count() == x.columns());
  STRETTO_CHECK(rstd.dtype == DType::kF32 && rstd.count() == x.rows());
  const int64_t columns = x.columns();
  ForEachRow(dy, x, [&]<class T>(const T* g, const T* in, int64_t row) {
    const int64_t at = row * columns;
    RmsRowGrad(g, in, w.as<T>(), rstd.as<float>()[row],
               residual.data ? residual.as<T>() + at : nullptr, columns, dx.as<T>() + at);
  });
}

void CpuOps::RmsNormWgrad(TensorView dy, TensorView x, TensorView rstd, TensorView dw) {
  STRETTO_CHECK(dy.dtype == x.dtype && dy.count() == x.count());
  STRETTO_CHECK(dw.dtype == DType::kF32 && dw.count() == x.columns());
  STRETTO_CHECK(rstd.dtype == DType::kF32 && rstd.count() == x.rows());
  const int64_t columns = x.columns();
  float* sum = dw.as<float>();
  ForEachRow(dy, x, [&]<class T>(const T* g, const T* in, int64_t row) {
    const float scale = rstd.as<float>()[row];
#pragma omp simd
    for (int64_t i = 0; i < columns; ++i) sum[i] += ToFloat(g[i]) * (ToFloat(in[i]) * scale);
  });
}

}  // namespace stretto::cpu::STRETTO_CPU_OPS
