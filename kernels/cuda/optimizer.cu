// SPDX-License-Identifier: Apache-2.0

// The gradient norm in two levels (chunks, then their sums, in f64 and in a fixed order), the clip
// factor, and AdamW on packs. Scalars of the step come from device memory, so that a captured graph
// serves every step; a norm that is not finite disables the update on the device.

#include <limits>

#include "kernels/cuda/rows.h"

namespace stretto::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kChunk = 1 << 16;  // elements whose squares one block sums

// sums[i] = sum of squares of chunk i of x.
template <bool kPacked>
__global__ void __launch_bounds__(kThreads)
    SumSquaresOfChunks(const float* x, int64_t count, double* sums) {
  __shared__ BlockReduce<1, double>::Places places;
  BlockReduce<1, double> block(places);
  const int64_t chunks = (count + kChunk - 1) / kChunk;
  for (int64_t chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
    const int64_t first = chunk * kChunk;
    const int size = static_cast<int>(std::min<int64_t>(kChunk, count - first));
    const Rows<const float, kPacked> row{
        .data = x + first, .count = 1, .columns = size, .width = size};
    double sum[1] = {0};
#pragma unroll 4
    for (int column = static_cast<int>(threadIdx.x) * kPack<float>; column < size;
         column += kThreads * kPack<float>) {
      const Pack<float> pack = row.Load(0, column);
      for (int k = 0; k < kPack<float>; ++k) {
        const double value = pack.at[k];
        sum[0] = fma(value, value, sum[0]);
      }
    }
    block.Sum(sum);
    if (threadIdx.x == 0) sums[chunk] = sum[0];
  }
}

// *out = sum of the parts, computed by one block.
template <class Part>
__global__ void __launch_bounds__(kThreads) SumParts(const Part* parts, int64_t count, float* out) {
  __shared__ BlockReduce<1, double>::Places places;
  double sum[1] = {0};
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < count; i += kThreads) sum[0] += static_cast<double>(parts[i]);
  BlockReduce<1, double>(places).Sum(sum);
  if (threadIdx.x == 0) *out = static_cast<float>(sum[0]);
}

__global__ void ClipOfNorm(const float* sum_squares, const float* scalars, float* state) {
  if (threadIdx.x != 0) return;
  const float norm = sqrtf(*sum_squares), limit = scalars[kClipNorm];
  const bool finite = norm <= std::numeric_limits<float>::max();  // false for NaN
  state[kGradNorm] = norm;
  state[kClipScale] = finite && limit > 0 ? fminf(1.0f, limit / (norm + 1e-6f)) : 1.0f;
  state[kUpdate] = finite ? 1.0f : 0.0f;
}

// The update of one element with scalars that are the same for all.
class AdamStep {
 public:
  __device__ AdamStep(const float* state, const float* scalars, bool decay)
      : clip_scale_(state[kClipScale]),
        beta1_(scalars[kBeta1]),
        beta2_(scalars[kBeta2]),
        epsilon_(scalars[kEpsilon]),
        keep_(decay ? 1.0f - scalars[kLearningRate] * scalars[kWeightDecay] : 1.0f),
        step_size_(scalars[kLearningRate] / scalars[kBiasCorrection1]),
        inverse_root_(1.0f / sqrtf(scalars[kBiasCorrection2])) {}

  __device__ __forceinline__ void operator()(float grad, float& master, float& m, float& v) const {
    const float g = grad * clip_scale_;
    m = beta1_ * m + (1.0f - beta1_) * g;
    v = beta2_ * v + (1.0f - beta2_) * g * g;
    master = master * keep_ - step_size_ * (m / (sqrtf(v) * inverse_root_ + epsilon_));
  }

 private:
  float clip_scale_, beta1_, beta2_, epsilon_, keep_, step_size_, inverse_root_;
};

// A pack of as many weights as a pack of f32 has elements.
template <class T>
using WeightPack = Pack<T, kPack<float>>;

// `packs` packs of 16 bytes, then the remaining elements one by one. weight may be null.
template <class T>
__global__ void AdamWPacks(const float* state, const float* scalars, bool decay, int64_t packs,
                           int64_t count, const float* grad, float* master, float* m, float* v,
                           T* weight) {
  if (state[kUpdate] == 0.0f) return;
  const AdamStep update(state, scalars, decay);
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  const int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (int64_t p = first; p < packs; p += step) {
    const int64_t at = p * kPack<float>;
    const Pack<float> g = LoadPack(grad + at);
    Pack<float> ms = LoadPack(m + at), vs = LoadPack(v + at), masters = LoadPack(master + at);
    WeightPack<T> rounded;
    for (int k = 0; k < kPack<float>; ++k) {
      update(g.at[k], masters.at[k], ms.at[k], vs.at[k]);
      rounded.at[k] = Round<T>(masters.at[k]);
    }
    StorePack(m + at, ms);
    StorePack(v + at, vs);
    StorePack(master + at, masters);
    if (weight != nullptr) StorePack(weight + at, rounded);
  }
  for (int64_t i = packs * kPack<float> + first; i < count; i += step) {
    update(grad[i], master[i], m[i], v[i]);
    if (weight != nullptr) weight[i] = Round<T>(master[i]);
  }
}

}  // namespace

void CudaOpsImpl::SumSquares(TensorView x, TensorView out) {
  const int64_t chunks = CeilDivide(x.count(), kChunk);
  STRETTO_CHECK(static_cast<size_t>(chunks) * sizeof(double) <= kCudaWorkspaceBytes);
  auto* sums = static_cast<double*>(options_.workspace);
  const bool packed = ArePacked<float>(x.count(), {x});
  Walk("sum_squares", chunks, {.threads = kThreads},
       packed ? SumSquaresOfChunks<true> : SumSquaresOfChunks<false>, x.as<const float>(),
       x.count(), sums);
  Launch("sum_squares", dim3(1), {.threads = kThreads}, SumParts<double>, sums, chunks,
         out.as<float>());
}

void CudaOpsImpl::Sum(TensorView parts, TensorView out) {
  Launch("sum", dim3(1), {.threads = kThreads}, SumParts<float>, parts.as<const float>(),
         parts.count(), out.as<float>());
}

void CudaOpsImpl::Clip(TensorView sum_squares, TensorView scalars, TensorView state) {
  STRETTO_CHECK(state.dtype == DType::kF32 && state.count() == kClipStateCount);
  STRETTO_CHECK(scalars.dtype == DType::kF32 && scalars.count() >= kScalarCount);
  Launch("clip", dim3(1), {.threads = kWarpSize}, ClipOfNorm, sum_squares.as<const float>(),
         scalars.as<const float>(), state.as<float>());
}

void CudaOpsImpl::AdamW(TensorView grad, TensorView state, TensorView scalars, bool decay,
                        TensorView master, TensorView m, TensorView v, TensorView weight) {
  STRETTO_CHECK(grad.count() == master.count() && m.count() == master.count());
  STRETTO_CHECK(v.count() == master.count() && weight.count() == master.count());
  STRETTO_CHECK(grad.dtype == DType::kF32 && master.dtype == DType::kF32);
  STRETTO_CHECK(state.count() == kClipStateCount && scalars.count() >= kScalarCount);
  WithType(weight.dtype, [&](auto type) {
    using T = decltype(type);
    const int64_t count = master.count();
    const bool aligned = Aligned(grad.data) && Aligned(master.data) && Aligned(m.data) &&
                         Aligned(v.data) && Aligned(weight.data, sizeof(WeightPack<T>));
    Walk("adamw", CeilDivide(count, kPack<float> * kThreads), {.threads = kThreads}, AdamWPacks<T>,
         state.as<const float>(), scalars.as<const float>(), decay,
         aligned ? count / kPack<float> : 0, count, grad.as<const float>(), master.as<float>(),
         m.as<float>(), v.as<float>(), weight.data == master.data ? nullptr : weight.as<T>());
  });
}

}  // namespace stretto::cuda
