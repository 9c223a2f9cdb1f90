// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "kernels/cpu/blocked.h"
#include "kernels/cpu/cpu_ops_impl.h"
#include "kernels/cpu/vector_math.h"

namespace stretto::cpu::STRETTO_CPU_OPS {

namespace {

template <class T>
void NormRow(const T* x, const T* w, const T* b, float epsilon, int64_t columns, T* y,
             float* stats) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < columns; ++i) sum += ToFloat(x[i]);
  const float mean = sum / static_cast<float>(columns);
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < columns; ++i) {
    const float centred = ToFloat(x[i]) - mean;
    squares += centred * centred;
  }
  const float rstd = 1.0f / std::sqrt(squares / static_cast<float>(columns) + epsilon);
#pragma omp simd
  for (int64_t i = 0; i < columns; ++i) {
    y[i] = FromFloat<T>((ToFloat(x[i]) - mean) * rstd * ToFloat(w[i]) + ToFloat(b[i]));
  }
  stats[0] = mean;
  stats[1] = rstd;
}

// With n = (x - mean) rstd and g = dy w: dx = residual + rstd (g - mean(g) - n mean(g n)).
template <class T>
void NormRowGrad(const T* dy, const T* x, const T* w, const float* stats, const T* residual,
                 int64_t columns, T* dx) {
  const float mean = stats[0], rstd = stats[1];
  float sum_g = 0, sum_gn = 0;
#pragma omp simd reduction(+ : sum_g, sum_gn)
  for (int64_t i = 0; i < columns; ++i) {
    const float g = ToFloat(dy[i]) * ToFloat(w[i]);
    sum_g += g;
    sum_gn += g * ((ToFloat(x[i]) - mean) * rstd);
  }
  const float mean_g = sum_g / static_cast<float>(columns);
  const float mean_gn = sum_gn / static_cast<float>(columns);
  const auto gradient = [=](int64_t i) {
    const float g = ToFloat(dy[i]) * ToFloat(w[i]);
    return rstd * (g - mean_g - (ToFloat(x[i]) - mean) * rstd * mean_gn);
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

void CpuOps::LayerNorm(TensorView x, TensorView w, TensorView b, float epsilon, TensorView y,
                       TensorView stats) {
  STRETTO_CHECK(x.dtype == w.dtype && x.dtype == b.dtype && x.dtype == y.dtype);
  STRETTO_CHECK(w.count() == x.columns() && b.count() == x.columns());
  STRETTO_CHECK(stats.dtype == DType::kF32 && stats.count() == 2 * x.rows());
  const int64_t columns = x.columns();
  WithType(x.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t row = 0; row < x.rows(); ++row) {
      NormRow(x.as<T>() + row * columns, w.as<T>(), b.as<T>(), epsilon, columns,
              y.as<T>() + row * columns, stats.as<float>() + 2 * row);
    }
  });
}

void CpuOps::LayerNormDgrad(TensorView dy, TensorView x, TensorView w, TensorView stats,
                            TensorView residual, TensorView dx) {
  STRETTO_CHECK(dy.dtype == x.dtype && dy.dtype == w.dtype && dy.dtype == dx.dtype);
  STRETTO_CHECK(residual.data == nullptr || residual.dtype == dy.dtype);
  STRETTO_CHECK(dy.count() == x.count() && w.count() == x.columns());
  STRETTO_CHECK(stats.dtype == DType::kF32 && stats.count() == 2 * x.rows());
  const int64_t columns = x.columns();
  ForEachRow(dy, x, [&]<class T>(const T* g, const T* in, int64_t row) {
    const int64_t at = row * columns;
    NormRowGrad(g, in, w.as<T>(), stats.as<float>() + 2 * row,
                residual.data ? residual.as<T>() + at : nullptr, columns, dx.as<T>() + at);
  });
}

void CpuOps::LayerNormWgrad(TensorView dy, TensorView x, TensorView stats, TensorView dw,
                            TensorView db) {
  STRETTO_CHECK(dy.dtype == x.dtype && dy.count() == x.count());
  STRETTO_CHECK(dw.dtype == DType::kF32 && db.dtype == DType::kF32);
  STRETTO_CHECK(dw.count() == x.columns() && db.count() == x.columns());
  const int64_t columns = x.columns();
  float* sum_w = dw.as<float>();
  float* sum_b = db.as<float>();
  ForEachRow(dy, x, [&]<class T>(const T* g, const T* in, int64_t row) {
    const float mean = stats.as<float>()[2 * row], rstd = stats.as<float>()[2 * row + 1];
#pragma omp simd
    for (int64_t i = 0; i < columns; ++i) {
      sum_w[i] += ToFloat(g[i]) * ((ToFloat(in[i]) - mean) * rstd);
      sum_b[i] += ToFloat(g[i]);
    }
  });
}

}  // namespace stretto::cpu::STRETTO_CPU_OPS
