// SPDX-License-Identifier: Apache-2.0
#pragma once
// LayerNorm and RmsNorm as one kernel. A block holds a row in registers and reads the weights again
// for each row (the first-level cache has them). kCentre selects LayerNorm; without it the mean is
// 0 and there is no bias.

#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/rows.h"

namespace stretto::cuda {

// The statistics of a row: (mean, rstd), or only rstd.
template <bool kCentre>
struct NormStats {
  float mean = 0, rstd;

  static __device__ __forceinline__ NormStats Load(const float* stats, int64_t row) {
    if constexpr (kCentre) return {stats[2 * row], stats[2 * row + 1]};
    return {0, stats[row]};
  }
  __device__ __forceinline__ void Store(float* stats, int64_t row) const {
    if constexpr (kCentre) {
      stats[2 * row] = mean;
      stats[2 * row + 1] = rstd;
    } else {
      stats[row] = rstd;
    }
  }
  __device__ __forceinline__ float Normalised(float x) const {
    return kCentre ? (x - mean) * rstd : x * rstd;
  }
};

// The row to be normalised, read from memory.
template <class F>
class PlainRow {
 public:
  using Operands = typename F::In;
  __device__ explicit PlainRow(const Operands& x) : x_(x) {}
  __device__ __forceinline__ HeldRow<F> operator()(int64_t row) const { return Hold<F>(x_, row); }

 private:
  const Operands& x_;
};

template <bool kCentre, class F>
__device__ __forceinline__ NormStats<kCentre> StatsOf(HeldRow<F>& x, int columns, float epsilon,
                                                      BlockReduce<1>& block) {
  constexpr int kWidth = kPack<typename F::T>;
  const float count = static_cast<float>(columns);
  float mean = 0, total[1] = {0};
  if constexpr (kCentre) {
    for (int i = 0; i < F::kPacks; ++i)
      for (int k = 0; k < kWidth; ++k) total[0] += x.at[i][k];  // 0 beyond the row
    block.Sum(total);
    x.StayPacked();
    mean = total[0] / count;
    total[0] = 0;
  }
  for (int i = 0; i < F::kPacks; ++i) {
    for (int k = 0; k < kWidth; ++k) {
      const float centred = HeldColumn<F>(i) + k < columns ? x.at[i][k] - mean : 0.0f;
      total[0] = fmaf(centred, centred, total[0]);
    }
  }
  block.Sum(total);
  x.StayPacked();
  return {mean, rsqrtf(total[0] / count + epsilon)};
}

// y = normalised(x) * w (+ b). Source returns rows of x as a block holds them.
template <bool kCentre, class F, class Source>
__global__ void __launch_bounds__(kMostThreads)
    NormRows(typename Source::Operands operands, typename F::In w, typename F::In b, float epsilon,
             typename F::Out y, float* stats) {
  using T = typename F::T;
  __shared__ BlockReduce<1>::Places places;
  BlockReduce<1> block(places);
  const Source source(operands);
  for (int64_t row = blockIdx.x; row < y.count; row += gridDim.x) {
    HeldRow<F> x = source(row);
    const NormStats<kCentre> of_row = StatsOf<kCentre>(x, y.columns, epsilon, block);
    if (threadIdx.x == 0) of_row.Store(stats, row);
    for (int i = 0; i < F::kPacks; ++i) {
      const int column = HeldColumn<F>(i);
      const Pack<T> weight = w.Load(0, column), bias = kCentre ? b.Load(0, column) : Pack<T>{};
      Pack<T> out;
      for (int k = 0; k < kPack<T>; ++k) {
        const float n = of_row.Normalised(x.at[i][k]), scale = ToFloat(weight.at[k]);
        out.at[k] = Round<T>(kCentre ? fmaf(n, scale, ToFloat(bias.at[k])) : n * scale);
      }
      y.Store(row, column, out);
    }
  }
}

// With n = normalised(x) and g = dy w: dx = residual + rstd (g - mean(g) - n mean(g n)), with
// mean(g) for LayerNorm only. residual.data may be null.
template <bool kCentre, class F>
__global__ void __launch_bounds__(kMostThreads)
    NormRowsGrad(typename F::In dy, typename F::In x, typename F::In w, const float* stats,
                 typename F::In residual, typename F::Out dx) {
  using T = typename F::T;
  __shared__ BlockReduce<2>::Places places;
  BlockReduce<2> block(places);
  const float count = static_cast<float>(x.columns);
  for (int64_t row = blockIdx.x; row < x.count; row += gridDim.x) {
    HeldRow<F> in = Hold<F>(x, row), gradient = Hold<F>(dy, row), base;
    if (residual.data != nullptr) base = Hold<F>(residual, row);
    const auto of_row = NormStats<kCentre>::Load(stats, row);
    float sums[2] = {0, 0};
    for (int i = 0; i < F::kPacks; ++i) {
      const Pack<T> weight = w.Load(0, HeldColumn<F>(i));
      for (int k = 0; k < kPack<T>; ++k) {  // g is 0 beyond the row
        const float g = gradient.at[i][k] * ToFloat(weight.at[k]);
        if constexpr (kCentre) sums[0] += g;
        sums[1] = fmaf(g, of_row.Normalised(in.at[i][k]), sums[1]);
      }
    }
    block.Sum(sums);
    in.StayPacked();
    gradient.StayPacked();
    const float mean_g = sums[0] / count, mean_gn = sums[1] / count;
    for (int i = 0; i < F::kPacks; ++i) {
      const int column = HeldColumn<F>(i);
      const Pack<T> weight = w.Load(0, column);
      Pack<T> out;
      for (int k = 0; k < kPack<T>; ++k) {
        const float g = gradient.at[i][k] * ToFloat(weight.at[k]);
        const float n = of_row.Normalised(in.at[i][k]);
        out.at[k] = Round<T>(base.at[i][k] + of_row.rstd * (g - mean_g - n * mean_gn));
      }
      dx.Store(row, column, out);
    }
  }
}

// dw += dy normalised(x) and, for LayerNorm, db += dy, as terms of column sums.
template <bool kCentre, class F>
struct NormWeightTerms {
  using T = typename F::T;
  static constexpr int kSums = kCentre ? 2 : 1;

  typename F::In dy, x;
  const float* stats;

  __device__ __forceinline__ void Add(int64_t row, int column,
                                      float (&sums)[kSums][kPack<T>]) const {
    const Pack<T> gradient = dy.Load(row, column), in = x.Load(row, column);
    const auto of_row = NormStats<kCentre>::Load(stats, row);
    for (int k = 0; k < kPack<T>; ++k) {
      const float g = ToFloat(gradient.at[k]);
      sums[0][k] = fmaf(g, of_row.Normalised(ToFloat(in.at[k])), sums[0][k]);
      if constexpr (kCentre) sums[1][k] += g;
    }
  }
};

}  // namespace stretto::cuda
