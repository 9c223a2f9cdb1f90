#include "kernels/cpu/cpu_ops_impl.h"
#include "kernels/cpu/vector_math.h"

namespace stretto::cpu {

namespace {

// u/2 (1 + tanh(z)) = u * Sigmoid(2 z), 2 z = kInner * (u + kCubic u^3).
constexpr float kInner = 1.5957691216f;  // 2 sqrt(2 / pi)
constexpr float kCubic = 0.044715f;

template <class T>
void GeluRow(const T* u, int64_t columns, T* a) {
#pragma omp simd
  for (int64_t i = 0; i < columns; ++i) {
    const float x = ToFloat(u[i]);
    a[i] = FromFloat<T>(x * Sigmoid(kInner * (x + kCubic * x * x * x)));
  }
}

template <class T>
void GeluGradRow(const T* u, const T* da, int64_t columns, T* du) {
#pragma omp simd
  for (int64_t i = 0; i < columns; ++i) {
    const float x = ToFloat(u[i]);
    const float s = Sigmoid(kInner * (x + kCubic * x * x * x));
    const float slope = kInner * (1.0f + 3.0f * kCubic * x * x);
    du[i] = FromFloat<T>(ToFloat(da[i]) * (s + x * s * (1.0f - s) * slope));
  }
}

template <class T>
void BiasResidualRow(const T* r, const T* bias, const T* x, int64_t columns, T* y) {
#pragma omp simd
  for (int64_t i = 0; i < columns; ++i) {
    y[i] = FromFloat<T>(ToFloat(x[i]) + ToFloat(r[i]) + ToFloat(bias[i]));
  }
}

}  // namespace

void CpuOps::BiasResidual(TensorView r, TensorView bias, TensorView x, TensorView y) {
  STRETTO_CHECK(r.dtype == bias.dtype && r.dtype == x.dtype && r.dtype == y.dtype);
  STRETTO_CHECK(bias.count() == x.columns() && r.count() == x.count() && y.count() == x.count());
  const int64_t columns = x.columns();
  WithType(x.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t at = 0; at < x.count(); at += columns) {
      BiasResidualRow(r.as<T>() + at, bias.as<T>(), x.as<T>() + at, columns, y.as<T>() + at);
    }
  });
}

void CpuOps::Gelu(TensorView u, TensorView a) {
  STRETTO_CHECK(u.dtype == a.dtype && u.count() == a.count());
  const int64_t columns = u.columns();
  WithType(u.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t at = 0; at < u.count(); at += columns) {
      GeluRow(u.as<T>() + at, columns, a.as<T>() + at);
    }
  });
}

void CpuOps::GeluGrad(TensorView u, TensorView da, TensorView du) {
  STRETTO_CHECK(u.dtype == da.dtype && u.dtype == du.dtype);
  STRETTO_CHECK(u.count() == da.count() && u.count() == du.count());
  const int64_t columns = u.columns();
  WithType(u.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t at = 0; at < u.count(); at += columns) {
      GeluGradRow(u.as<T>() + at, da.as<T>() + at, columns, du.as<T>() + at);
    }
  });
}

}  // namespace stretto::cpu
