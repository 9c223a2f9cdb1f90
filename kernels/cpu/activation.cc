// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/cpu_ops_impl.h"
#include "kernels/cpu/vector_math.h"

namespace stretto::cpu::STRETTO_CPU_OPS {

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

// a = g sigmoid(g) u
template <class T>
void SwiGluRow(const T* gate, const T* up, int64_t columns, T* a) {
#pragma omp simd
  for (int64_t i = 0; i < columns; ++i) {
    const float g = ToFloat(gate[i]);
    a[i] = FromFloat<T>(g * Sigmoid(g) * ToFloat(up[i]));
  }
}

template <class T>
void SwiGluGradRow(const T* gate, const T* up, const T* da, int64_t columns, T* dgate, T* dup) {
#pragma omp simd
  for (int64_t i = 0; i < columns; ++i) {
    const float g = ToFloat(gate[i]), d = ToFloat(da[i]);
    const float s = Sigmoid(g);
    dgate[i] = FromFloat<T>(d * ToFloat(up[i]) * (s + g * s * (1.0f - s)));
    dup[i] = FromFloat<T>(d * (g * s));
  }
}

}  // namespace

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

void CpuOps::SwiGlu(TensorView u, TensorView a) {
  STRETTO_CHECK(u.dtype == a.dtype && u.count() == 2 * a.count());
  STRETTO_CHECK(u.columns() == 2 * a.columns());
  const int64_t columns = a.columns();
  WithType(u.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t row = 0; row < a.rows(); ++row) {
      const T* gate = u.as<T>() + row * 2 * columns;
      SwiGluRow(gate, gate + columns, columns, a.as<T>() + row * columns);
    }
  });
}

void CpuOps::SwiGluGrad(TensorView u, TensorView da, TensorView du) {
  STRETTO_CHECK(u.dtype == da.dtype && u.dtype == du.dtype);
  STRETTO_CHECK(u.count() == 2 * da.count() && u.count() == du.count());
  STRETTO_CHECK(u.columns() == 2 * da.columns());
  const int64_t columns = da.columns();
  WithType(u.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t row = 0; row < da.rows(); ++row) {
      const T* gate = u.as<T>() + row * 2 * columns;
      T* dgate = du.as<T>() + row * 2 * columns;
      SwiGluGradRow(gate, gate + columns, da.as<T>() + row * columns, columns, dgate,
                    dgate + columns);
    }
  });
}

}  // namespace stretto::cpu::STRETTO_CPU_OPS
