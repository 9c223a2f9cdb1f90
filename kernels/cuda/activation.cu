#include "kernels/cuda/cuda_ops_impl.h"
#include "kernels/cuda/device.h"

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

// y[i] = f(x[i]...); whole packs by 16 bytes, the rest one by one.
template <class T, class F, class... X>
__global__ void Map(F f, int64_t count, T* y, X... x) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  const int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t packs = count / kPack<T>;
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

// a[n,f] = g sigmoid(g) u of rows (g | u) of 2f.
template <class T>
__global__ void SwiGluRows(int64_t rows, int64_t width, const T* u, T* a) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < rows * width; i += step) {
    const T* gate = u + i / width * 2 * width + i % width;
    const float g = ToFloat(gate[0]);
    a[i] = Round<T>(g * Sigmoid(g) * ToFloat(gate[width]));
  }
}

}  // namespace

void CudaOpsImpl::Gelu(TensorView u, TensorView a) {
  STRETTO_CHECK(u.dtype == a.dtype && u.count() == a.count());
  WithType(u.dtype, [&](auto type) {
    using T = decltype(type);
    const int64_t blocks = u.count() / (kPack<T> * 256) + 1;
    Walk("gelu", blocks, {}, Map<T, GeluOf, const T*>, GeluOf{}, u.count(), a.as<T>(),
         u.as<const T>());
  });
}

void CudaOpsImpl::GeluGrad(TensorView u, TensorView da, TensorView du) {
  STRETTO_CHECK(u.dtype == da.dtype && u.dtype == du.dtype);
  STRETTO_CHECK(u.count() == da.count() && u.count() == du.count());
  WithType(u.dtype, [&](auto type) {
    using T = decltype(type);
    const int64_t blocks = u.count() / (kPack<T> * 256) + 1;
    Walk("gelu_grad", blocks, {}, Map<T, GeluGradOf, const T*, const T*>, GeluGradOf{}, u.count(),
         du.as<T>(), u.as<const T>(), da.as<const T>());
  });
}

}  // namespace stretto::cuda
