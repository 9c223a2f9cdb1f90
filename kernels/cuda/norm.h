// SPDX-License-Identifier: Apache-2.0
#pragma once
// LayerNorm and RmsNorm as one kernel. A block holds a row in registers and reads the weights again
// for each row (the first-level cache has them). kCentre selects LayerNorm; without it the mean is
// 0 and there is no bias.
//
// Gradients of weights are sums over rows. The shape alone cuts rows into parts. A thread adds the
// rows of a part in ascending order, whether it also computes the gradient of the input or not, and
// AddColumnParts adds the parts, so the two ways have the same bits.

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

template <class F>
struct NormGradOperands {
  typename F::In dy, x, w, residual;  // residual.data may be null
  const float* stats;
  typename F::Out dx;
};

// With n = normalised(x) and g = dy w: dx = residual + rstd (g - mean(g) - n mean(g n)), with
// mean(g) for LayerNorm only. Calls visit(dy, x, stats) of the row while the block holds it.
template <bool kCentre, class F, class Visit>
__device__ __forceinline__ void NormRowGrad(const NormGradOperands<F>& at, int64_t row,
                                            BlockReduce<2>& block, Visit visit) {
  using T = typename F::T;
  const float count = static_cast<float>(at.x.columns);
  HeldRow<F> in = Hold<F>(at.x, row), gradient = Hold<F>(at.dy, row), base;
  if constexpr (!kLoadsLate<F>) {
    if (at.residual.data != nullptr) base = Hold<F>(at.residual, row);
  }
  const auto of_row = NormStats<kCentre>::Load(at.stats, row);
  float sums[2] = {0, 0};
  for (int i = 0; i < F::kPacks; ++i) {
    const Pack<T> weight = at.w.Load(0, HeldColumn<F>(i));
    for (int k = 0; k < kPack<T>; ++k) {  // g is 0 beyond the row
      const float g = gradient.at[i][k] * ToFloat(weight.at[k]);
      if constexpr (kCentre) sums[0] += g;
      sums[1] = fmaf(g, of_row.Normalised(in.at[i][k]), sums[1]);
    }
  }
  in.StayPacked();
  gradient.StayPacked();
  visit(gradient, in, of_row);
  block.Sum(sums);
  in.StayPacked();
  gradient.StayPacked();
  const float mean_g = sums[0] / count, mean_gn = sums[1] / count;
  for (int i = 0; i < F::kPacks; ++i) {
    const int column = HeldColumn<F>(i);
    const Pack<T> weight = at.w.Load(0, column);
    if constexpr (kLoadsLate<F>) {
      if (at.residual.data != nullptr) base.at[i] = HeldPack<T>::Of(at.residual.Load(row, column));
    }
    Pack<T> out;
    for (int k = 0; k < kPack<T>; ++k) {
      const float g = gradient.at[i][k] * ToFloat(weight.at[k]);
      const float n = of_row.Normalised(in.at[i][k]);
      out.at[k] = Round<T>(base.at[i][k] + of_row.rstd * (g - mean_g - n * mean_gn));
    }
    at.dx.Store(row, column, out);
  }
}

template <bool kCentre, class F>
__global__ void __launch_bounds__(kMostThreads) NormRowsGrad(NormGradOperands<F> at) {
  __shared__ BlockReduce<2>::Places places;
  BlockReduce<2> block(places);
  for (int64_t row = blockIdx.x; row < at.x.count; row += gridDim.x)
    NormRowGrad<kCentre>(at, row, block, [](const auto&...) {});
}

// The sums of dy normalised(x) and, for LayerNorm, of dy, of a pack of columns.
template <bool kCentre, class T>
struct NormWeightSums {
  static constexpr int kSums = kCentre ? 2 : 1;
  float at[kSums][kPack<T>] = {};

  __device__ __forceinline__ void Add(const HeldPack<T>& dy, const HeldPack<T>& x,
                                      const NormStats<kCentre>& of_row) {
    for (int k = 0; k < kPack<T>; ++k) {
      at[0][k] = fmaf(dy[k], of_row.Normalised(x[k]), at[0][k]);
      if constexpr (kCentre) at[1][k] += dy[k];
    }
  }
  // `sums`: of the part, f32[kSums][columns].
  __device__ __forceinline__ void Store(int column, int columns, float* sums) const {
    for (int s = 0; s < kSums; ++s) {
      for (int k = 0; k < kPack<T>; ++k)
        if (column + k < columns) sums[s * columns + column + k] = at[s][k];
    }
  }
};

// Parts of few rows, so that each can be a block's work and blocks fill a large device.
inline ColumnParts NormPartsOf(int64_t rows, int64_t columns, int sums) {
  constexpr int64_t kParts = 512;
  const int64_t room = static_cast<int64_t>(kCudaWorkspaceBytes / sizeof(float)) / (sums * columns);
  const int64_t most = std::max<int64_t>(std::min(room, CeilDivide(rows, 2)), 1);
  const int64_t rows_of_part = std::max<int64_t>(CeilDivide(rows, std::min(kParts, most)), 1);
  return {.parts = CeilDivide(rows, rows_of_part), .rows_of_part = rows_of_part, .tiles = 1};
}

// A block holds the rows of a part, one after the other. sums: f32[parts][kSums][columns].
inline constexpr int kGradsThreads = 512;
template <bool kCentre, class F>
__global__ void __launch_bounds__(kGradsThreads)
    NormRowsGrads(NormGradOperands<F> at, ColumnParts cut, float* sums) {
  using Own = NormWeightSums<kCentre, typename F::T>;
  __shared__ BlockReduce<2>::Places places;
  BlockReduce<2> block(places);
  for (int64_t part = blockIdx.x; part < cut.parts; part += gridDim.x) {
    Own own[F::kPacks];
    const int64_t end = std::min(at.x.count, (part + 1) * cut.rows_of_part);
    for (int64_t row = part * cut.rows_of_part; row < end; ++row) {
      NormRowGrad<kCentre>(at, row, block, [&](const auto& dy, const auto& x, const auto& of_row) {
        for (int i = 0; i < F::kPacks; ++i) own[i].Add(dy.at[i], x.at[i], of_row);
      });
    }
    for (int i = 0; i < F::kPacks; ++i)
      own[i].Store(HeldColumn<F>(i), at.x.columns, sums + part * Own::kSums * at.x.columns);
  }
}

// The same sums alone. A thread has a pack of columns, a block kSumThreads of them.
template <bool kCentre, class F>
__global__ void __launch_bounds__(kSumThreads)
    SumNormParts(typename F::In dy, typename F::In x, const float* stats, ColumnParts cut,
                 float* sums) {
  using T = typename F::T;
  using Own = NormWeightSums<kCentre, T>;
  for (int64_t item = blockIdx.x; item < cut.parts * cut.tiles; item += gridDim.x) {
    const int64_t part = item / cut.tiles, tile = item - part * cut.tiles;
    const int column = static_cast<int>(tile * kSumThreads + threadIdx.x) * kPack<T>;
    if (column >= x.columns) continue;
    Own own;
    const int64_t end = std::min(x.count, (part + 1) * cut.rows_of_part);
#pragma unroll 4
    for (int64_t row = part * cut.rows_of_part; row < end; ++row) {
      own.Add(HeldPack<T>::Of(dy.Load(row, column)), HeldPack<T>::Of(x.Load(row, column)),
              NormStats<kCentre>::Load(stats, row));
    }
    own.Store(column, x.columns, sums + part * Own::kSums * x.columns);
  }
}

template <bool kCentre, size_t kSums>
bool CudaOpsImpl::NormGrads(const char* name, TensorView dy, TensorView x, TensorView w,
                            TensorView stats, TensorView residual, TensorView dx,
                            std::array<float*, kSums> out) {
  const int64_t columns = x.columns();
  bool fits = false;
  WithForm(columns, {dy, x, w, residual, dx}, [&](auto form) {
    using T = typename decltype(form)::T;
    using F = Form<T, decltype(form)::kPacked, 2>;
    using In = typename F::In;
    const int threads = HoldingThreads<T>(columns, F::kPacks);
    fits = threads <= kGradsThreads;
    if (!fits) return;
    const ColumnParts cut = NormPartsOf(x.rows(), columns, static_cast<int>(kSums));
    const NormGradOperands<F> at{.dy = BlockedAs<In>(dy, columns),
                                 .x = PlainAs<In>(x, columns),
                                 .w = PlainAs<In>(w, columns),
                                 .residual = PlainAs<In>(residual, columns),
                                 .stats = stats.as<const float>(),
                                 .dx = PlainAs<typename F::Out>(dx, columns)};
    Walk(name, cut.parts, {.threads = threads}, NormRowsGrads<kCentre, F>, at, cut,
         static_cast<float*>(options_.workspace));
    AddParts(name, cut.parts, columns, out);
  });
  return fits;
}

template <bool kCentre, size_t kSums>
void CudaOpsImpl::NormWgrad(const char* name, TensorView dy, TensorView x, TensorView stats,
                            std::array<float*, kSums> out) {
  const int64_t columns = x.columns();
  WithForm(columns, {dy, x}, [&](auto form) {
    using F = decltype(form);
    using In = typename F::In;
    ColumnParts cut = NormPartsOf(x.rows(), columns, static_cast<int>(kSums));
    cut.tiles = static_cast<int>(CeilDivide(columns, kSumThreads * kPack<typename F::T>));
    Walk(name, cut.parts * cut.tiles, {.threads = kSumThreads}, SumNormParts<kCentre, F>,
         BlockedAs<In>(dy, columns), PlainAs<In>(x, columns), stats.as<const float>(), cut,
         static_cast<float*>(options_.workspace));
    AddParts(name, cut.parts, columns, out);
  });
}

}  // namespace stretto::cuda
