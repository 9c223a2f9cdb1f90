// SPDX-License-Identifier: Apache-2.0

// Softmax cross entropy over a vocabulary that may be split over ranks, in the four parts between
// which collectives run: the maximum of a row, the sum of exponentials with the target's logit, the
// loss, and the gradient in place of the logits. A block processes a row at a time and reduces it
// in shared memory.

#include <limits>

#include "kernels/cuda/rows.h"
#include "kernels/target.h"

namespace stretto::cuda {
namespace {

// A block processes a row, and a thread about four packs of it.
template <class T>
Spread SpreadOf(int64_t columns) {
  const int64_t threads = CeilDivide(columns, 4 * kPack<T> * kWarpSize) * kWarpSize;
  return {.threads = static_cast<int>(std::clamp<int64_t>(threads, kWarpSize, 512))};
}

// Calls body(value) for this thread's elements among the first `count` of a row.
template <class T, bool kPacked, class Body>
__device__ __forceinline__ void ForEachOfRow(const Rows<const T, kPacked>& rows, int64_t row,
                                             int count, Body body) {
#pragma unroll 4
  for (int column = static_cast<int>(threadIdx.x) * kPack<T>; column < count;
       column += static_cast<int>(blockDim.x) * kPack<T>) {
    const Pack<T> pack = rows.Load(row, column);
    for (int k = 0; k < kPack<T>; ++k)
      if (column + k < count) body(ToFloat(pack.at[k]));
  }
}

// real: the number of columns that are tokens; the columns after them are padding.
template <class F>
__global__ void MaxOfRows(typename F::In logits, int real, float* max) {
  __shared__ BlockReduce<1>::Places places;
  BlockReduce<1> block(places);
  for (int64_t row = blockIdx.x; row < logits.count; row += gridDim.x) {
    float top[1] = {-std::numeric_limits<float>::infinity()};
    ForEachOfRow(logits, row, real, [&](float x) { top[0] = fmaxf(top[0], x); });
    block.Max(top);
    if (threadIdx.x == 0) max[row] = top[0];
  }
}

// Returns the target's column on this rank, or -1.
__device__ __forceinline__ int LocalTarget(int32_t target, int64_t start, int real) {
  const int64_t column = target - start;
  return column >= 0 && column < real ? static_cast<int>(column) : -1;
}

template <class F>
__global__ void SumOfRows(typename F::In logits, const float* max, const int32_t* targets,
                          int64_t start, int real, float* sums) {
  __shared__ BlockReduce<1>::Places places;
  BlockReduce<1> block(places);
  for (int64_t row = blockIdx.x; row < logits.count; row += gridDim.x) {
    if (targets[row] == kNoTarget) {  // for all threads of the block
      if (threadIdx.x == 0) {
        sums[2 * row] = start == 0 ? 1.0f : 0.0f;
        sums[2 * row + 1] = 0;
      }
      continue;
    }
    const float top = max[row];
    float sum[1] = {0};
    ForEachOfRow(logits, row, real, [&](float x) { sum[0] += __expf(x - top); });
    block.Sum(sum);
    if (threadIdx.x != 0) continue;
    const int target = LocalTarget(targets[row], start, real);
    sums[2 * row] = sum[0];
    sums[2 * row + 1] = target < 0 ? 0.0f : ToFloat(logits.data[logits.At(row, target)]) - top;
  }
}

__global__ void LossOfRows(const float* sums, int64_t count, float* loss) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t row = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; row < count; row += step)
    loss[row] = logf(sums[2 * row]) - sums[2 * row + 1];
}

template <class F>
__global__ void GradOfRows(const float* max, const float* sums, const int32_t* targets,
                           const float* scalars, int64_t start, int real, typename F::Out logits) {
  using T = typename F::T;
  const float weight = scalars[kLossWeight];
  for (int64_t row = blockIdx.x; row < logits.count; row += gridDim.x) {
    const float top = max[row], scale = weight / sums[2 * row];
    const int target = LocalTarget(targets[row], start, real);
    const int counted = targets[row] == kNoTarget ? 0 : real;  // columns that have a gradient
#pragma unroll 4
    for (int column = static_cast<int>(threadIdx.x) * kPack<T>; column < logits.columns;
         column += static_cast<int>(blockDim.x) * kPack<T>) {
      Pack<T> pack = logits.Load(row, column);
      for (int k = 0; k < kPack<T>; ++k) {
        float value = __expf(ToFloat(pack.at[k]) - top) * scale;
        if (column + k == target) value -= weight;
        pack.at[k] = Round<T>(column + k < counted ? value : 0.0f);
      }
      logits.Store(row, column, pack);
    }
  }
}

// Returns the number of this rank's columns that are tokens.
int RealColumns(const TensorView& logits, const VocabShard& vocab) {
  return static_cast<int>(std::clamp<int64_t>(vocab.size - vocab.start, 0, logits.columns()));
}

}  // namespace

void CudaOpsImpl::CrossEntropyMax(TensorView logits, VocabShard vocab, TensorView max) {
  STRETTO_CHECK(max.dtype == DType::kF32 && max.count() == logits.rows());
  WithForm(logits.columns(), {logits}, [&](auto form) {
    using F = decltype(form);
    Walk("cross_entropy_max", logits.rows(), SpreadOf<typename F::T>(logits.columns()),
         MaxOfRows<F>, PlainAs<typename F::In>(logits, logits.columns()),
         RealColumns(logits, vocab), max.as<float>());
  });
}

void CudaOpsImpl::CrossEntropySum(TensorView logits, TensorView max, TensorView targets,
                                  VocabShard vocab, TensorView sums) {
  STRETTO_CHECK(max.dtype == DType::kF32 && max.count() == logits.rows());
  STRETTO_CHECK(targets.dtype == DType::kI32 && targets.count() == logits.rows());
  STRETTO_CHECK(sums.dtype == DType::kF32 && sums.count() == 2 * logits.rows());
  WithForm(logits.columns(), {logits}, [&](auto form) {
    using F = decltype(form);
    Walk("cross_entropy_sum", logits.rows(), SpreadOf<typename F::T>(logits.columns()),
         SumOfRows<F>, PlainAs<typename F::In>(logits, logits.columns()), max.as<const float>(),
         targets.as<const int32_t>(), vocab.start, RealColumns(logits, vocab), sums.as<float>());
  });
}

void CudaOpsImpl::CrossEntropyLoss(TensorView sums, TensorView loss) {
  STRETTO_CHECK(sums.dtype == DType::kF32 && loss.dtype == DType::kF32);
  STRETTO_CHECK(sums.count() == 2 * loss.count());
  Walk("cross_entropy_loss", CeilDivide(loss.count(), kWalkThreads), {.threads = kWalkThreads},
       LossOfRows, sums.as<const float>(), loss.count(), loss.as<float>());
}

void CudaOpsImpl::CrossEntropyGrad(TensorView max, TensorView sums, TensorView targets,
                                   TensorView scalars, VocabShard vocab, TensorView logits) {
  STRETTO_CHECK(max.dtype == DType::kF32 && max.count() == logits.rows());
  STRETTO_CHECK(targets.dtype == DType::kI32 && targets.count() == logits.rows());
  STRETTO_CHECK(sums.dtype == DType::kF32 && sums.count() == 2 * logits.rows());
  STRETTO_CHECK(scalars.dtype == DType::kF32 && scalars.count() >= kScalarCount);
  WithForm(logits.columns(), {logits}, [&](auto form) {
    using F = decltype(form);
    Walk("cross_entropy_grad", logits.rows(), SpreadOf<typename F::T>(logits.columns()),
         GradOfRows<F>, max.as<const float>(), sums.as<const float>(), targets.as<const int32_t>(),
         scalars.as<const float>(), vocab.start, RealColumns(logits, vocab),
         PlainAs<typename F::Out>(logits, logits.columns()));
  });
}

}  // namespace stretto::cuda
