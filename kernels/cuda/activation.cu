// SPDX-License-Identifier: Apache-2.0

// GELU and SwiGLU, forward and gradient, in f32 on packs of 16 bytes. All are element-wise, so a
// grid of any size can walk the packs; elements that do not fill a pack are processed one by one.

#include "kernels/cuda/rows.h"

namespace stretto::cuda {
namespace {

// u/2 (1 + tanh(z)) = u * Sigmoid(2 z), 2 z = kInner * (u + kCubic u^3).
constexpr float kInner = 1.5957691216f;  // 2 sqrt(2 / pi)
constexpr float kCubic = 0.044715f;

__device__ float Sigmoid(float x) { return 1.0f / (1.0f + __expf(-x)); }

struct GeluOf {
  __device__ float operator()(float u) const {
    return u * Sigmoid(kInner * (u + kCubic * u * u * u));
  }
};

struct GeluGradOf {
  __device__ float operator()(float u, float da) const {
    const float s = Sigmoid(kInner * (u + kCubic * u * u * u));
    const float slope = kInner * (1.0f + 3.0f * kCubic * u * u);
    return da * (s + u * s * (1.0f - s) * slope);
  }
};

// y[i] = f(x[i]...); `packs` packs of 16 bytes, then the remaining elements one by one.
template <class T, class F, class... X>
__global__ void Map(F f, int64_t packs, int64_t count, T* y, X... x) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  const int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (int64_t p = first; p < packs; p += step) {
    const int64_t at = p * kPack<T>;
    Pack<T> out;
    const auto one = [&](const auto&... in) {
      for (int i = 0; i < kPack<T>; ++i) out.at[i] = Round<T>(f(ToFloat(in.at[i])...));
    };
    one(LoadPack(x + at)...);
    StorePack(y + at, out);
  }
  for (int64_t i = packs * kPack<T> + first; i < count; i += step)
    y[i] = Round<T>(f(ToFloat(x[i])...));
}

// Returns how many packs of the tensors are complete and aligned.
template <class T, class... View>
int64_t WholePacks(int64_t count, const View&... views) {
  return (Aligned(views.data) && ...) ? count / kPack<T> : 0;
}

// a = g sigmoid(g) u. The rows of gu alternate between g and u, each half a row of the operand.
template <class F>
__global__ void SwiGluPacks(typename F::In gu, typename F::Out a) {
  using T = typename F::T;
  ForEachPack(a, [&](int64_t row, int column) {
    const Pack<T> gate = gu.Load(2 * row, column), up = gu.Load(2 * row + 1, column);
    Pack<T> out;
    for (int i = 0; i < kPack<T>; ++i) {
      const float g = ToFloat(gate.at[i]);
      out.at[i] = Round<T>(g * Sigmoid(g) * ToFloat(up.at[i]));
    }
    a.Store(row, column, out);
  });
}

template <class F>
__global__ void SwiGluGradPacks(typename F::In gu, typename F::In da, typename F::Out dgu) {
  using T = typename F::T;
  ForEachPack(da, [&](int64_t row, int column) {
    const Pack<T> gate = gu.Load(2 * row, column), up = gu.Load(2 * row + 1, column);
    const Pack<T> gradient = da.Load(row, column);
    Pack<T> dgate, dup;
    for (int i = 0; i < kPack<T>; ++i) {
      const float g = ToFloat(gate.at[i]), d = ToFloat(gradient.at[i]);
      const float s = Sigmoid(g);
      dgate.at[i] = Round<T>(d * ToFloat(up.at[i]) * (s + g * s * (1.0f - s)));
      dup.at[i] = Round<T>(d * (g * s));
    }
    dgu.Store(2 * row, column, dgate);
    dgu.Store(2 * row + 1, column, dup);
  });
}

}  // namespace

void CudaOpsImpl::Gelu(TensorView u, TensorView a) {
  STRETTO_CHECK(u.dtype == a.dtype && u.count() == a.count());
  WithType(u.dtype, [&](auto type) {
    using T = decltype(type);
    const int64_t count = u.count();
    Walk("gelu", CeilDivide(count, kPack<T> * kWalkThreads), {.threads = kWalkThreads},
         Map<T, GeluOf, const T*>, GeluOf{}, WholePacks<T>(count, u, a), count, a.as<T>(),
         u.as<const T>());
  });
}

void CudaOpsImpl::GeluGrad(TensorView u, TensorView da, TensorView du) {
  STRETTO_CHECK(u.dtype == da.dtype && u.dtype == du.dtype);
  STRETTO_CHECK(u.count() == da.count() && u.count() == du.count());
  WithType(u.dtype, [&](auto type) {
    using T = decltype(type);
    const int64_t count = u.count();
    Walk("gelu_grad", CeilDivide(count, kPack<T> * kWalkThreads), {.threads = kWalkThreads},
         Map<T, GeluGradOf, const T*, const T*>, GeluGradOf{}, WholePacks<T>(count, u, da, du),
         count, du.as<T>(), u.as<const T>(), da.as<const T>());
  });
}

void CudaOpsImpl::SwiGlu(TensorView u, TensorView a) {
  STRETTO_CHECK(u.dtype == a.dtype && u.count() == 2 * a.count());
  STRETTO_CHECK(u.columns() == 2 * a.columns());
  WithForm(a.columns(), {u, a}, [&](auto form) {
    using F = decltype(form);
    const auto rows = PlainAs<typename F::Out>(a, a.columns());
    Walk("swiglu", PackBlocks(rows), {.threads = kWalkThreads}, SwiGluPacks<F>,
         PlainAs<typename F::In>(u, a.columns()), rows);
  });
}

void CudaOpsImpl::SwiGluGrad(TensorView u, TensorView da, TensorView du) {
  STRETTO_CHECK(u.dtype == da.dtype && u.dtype == du.dtype);
  STRETTO_CHECK(u.count() == 2 * da.count() && u.count() == du.count());
  STRETTO_CHECK(u.columns() == 2 * da.columns());
  WithForm(da.columns(), {u, da, du}, [&](auto form) {
    using F = decltype(form);
    using In = typename F::In;
    const auto rows = PlainAs<In>(da, da.columns());
    Walk("swiglu_grad", PackBlocks(rows), {.threads = kWalkThreads}, SwiGluGradPacks<F>,
         PlainAs<In>(u, da.columns()), rows, PlainAs<typename F::Out>(du, da.columns()));
  });
}

}  // namespace stretto::cuda
