// SPDX-License-Identifier: Apache-2.0

// Embeddings and their gradients. The gradient of the token table adds all rows of one token in
// ascending order, so its bits do not depend on the launch: rows are sorted by (token, row) in runs
// and merged, and the thread at the first row of a token adds the token's rows one after the other.

#include "kernels/cuda/rows.h"

namespace stretto::cuda {
namespace {

// y[row] = table[token - start], or 0 if the table does not hold the token.
template <class F>
__global__ void EmbedPacks(const int32_t* tokens, int64_t start, typename F::In table,
                           typename F::Out y) {
  ForEachPack(y, [&](int64_t row, int column) {
    const int64_t from = tokens[row] - start;
    const bool here = from >= 0 && from < table.count;
    y.Store(row, column, here ? table.Load(from, column) : Pack<typename F::T>{});
  });
}

// Returns a row and its token as one number. In ascending order of it, the rows of a token are
// adjacent and ascending.
__device__ __forceinline__ uint64_t KeyOf(int32_t token, int64_t row) {
  return uint64_t{static_cast<uint32_t>(token)} << 32 | static_cast<uint32_t>(row);
}
__device__ __forceinline__ int32_t TokenOf(uint64_t key) { return static_cast<int32_t>(key >> 32); }
__device__ __forceinline__ int64_t RowOf(uint64_t key) { return static_cast<uint32_t>(key); }

// Returns how many of the ascending keys are below `key`.
__device__ __forceinline__ int64_t CountBelow(const uint64_t* keys, int64_t count, uint64_t key) {
  int64_t first = 0;
  while (count > 0) {
    const int64_t half = count / 2;
    if (keys[first + half] < key) {
      first += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return first;
}

// Sorts runs of kSortThreads rows: a row's place in its run is the number of keys below its own.
constexpr int kSortThreads = 1024;
__global__ void __launch_bounds__(kSortThreads)
    SortRuns(const int32_t* tokens, int64_t rows, uint64_t* keys) {
  __shared__ uint64_t run[kSortThreads];
  const int self = static_cast<int>(threadIdx.x);
  for (int64_t first = int64_t{blockIdx.x} * kSortThreads; first < rows;
       first += int64_t{gridDim.x} * kSortThreads) {
    const int64_t row = first + self;
    const uint64_t key = row < rows ? KeyOf(tokens[row], row) : ~uint64_t{0};
    run[self] = key;
    __syncthreads();
    int below = 0;
#pragma unroll 8
    for (int i = 0; i < kSortThreads; ++i) below += run[i] < key;
    if (row < rows) keys[first + below] = key;
    __syncthreads();
  }
}

// Merges sorted runs of `length` in pairs; the last one may be shorter, or without a partner.
__global__ void MergeRuns(const uint64_t* from, int64_t rows, int64_t length, uint64_t* to) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < rows; at += step) {
    const int64_t run = at / length, pair = run / 2 * 2 * length;
    const int64_t other = (run ^ 1) * length;
    const int64_t count = std::max<int64_t>(std::min(length, rows - other), 0);
    to[pair + at % length + CountBelow(from + other, count, from[at])] = from[at];
  }
}

// The thread at the first of a token's rows adds all of them to the table, in ascending order.
template <class F>
__global__ void AddTokenRows(const uint64_t* keys, int64_t start, typename F::In dx,
                             int64_t table_rows, float* dtable) {
  using T = typename F::T;
  ForEachPack(dx, [&](int64_t place, int column) {
    const int32_t token = TokenOf(keys[place]);
    if (place > 0 && TokenOf(keys[place - 1]) == token) return;
    const int64_t to = token - start;
    if (to < 0 || to >= table_rows) return;
    const int64_t run = CountBelow(keys + place, dx.count - place, KeyOf(token + 1, 0));
    float* out = dtable + to * dx.columns + column;
    float sums[kPack<T>];
    for (int k = 0; k < kPack<T>; ++k) sums[k] = column + k < dx.columns ? out[k] : 0.0f;
#pragma unroll 4
    for (int64_t i = 0; i < run; ++i) {
      const Pack<T> row = dx.Load(RowOf(keys[place + i]), column);
      for (int k = 0; k < kPack<T>; ++k) sums[k] += ToFloat(row.at[k]);
    }
    for (int k = 0; k < kPack<T>; ++k)
      if (column + k < dx.columns) out[k] = sums[k];
  });
}

template <class F>
__global__ void AddPositionPacks(typename F::In position, int64_t first_token, typename F::Out x) {
  using T = typename F::T;
  ForEachPack(x, [&](int64_t row, int column) {
    const Pack<T> p = position.Load((first_token + row) % position.count, column);
    Pack<T> y = x.Load(row, column);
    for (int k = 0; k < kPack<T>; ++k) y.at[k] = Round<T>(ToFloat(y.at[k]) + ToFloat(p.at[k]));
    x.Store(row, column, y);
  });
}

// dposition[(first_row + row) % length] += dx[row], rows ascending. `positions` is not read; it has
// the rows of dposition in the form of dx.
template <class F>
__global__ void AddPositionRows(typename F::In dx, int64_t first_row, typename F::In positions,
                                float* dposition) {
  using T = typename F::T;
  ForEachPack(positions, [&](int64_t position, int column) {
    float* out = dposition + position * dx.columns + column;
    float sums[kPack<T>];
    for (int k = 0; k < kPack<T>; ++k) sums[k] = column + k < dx.columns ? out[k] : 0.0f;
    int64_t row = position - first_row;
    if (row < 0) row += positions.count;
#pragma unroll 2
    for (; row < dx.count; row += positions.count) {
      const Pack<T> pack = dx.Load(row, column);
      for (int k = 0; k < kPack<T>; ++k) sums[k] += ToFloat(pack.at[k]);
    }
    for (int k = 0; k < kPack<T>; ++k)
      if (column + k < dx.columns) out[k] = sums[k];
  });
}

}  // namespace

void CudaOpsImpl::Embed(TensorView tokens, TensorView table, VocabShard vocab, TensorView y) {
  STRETTO_CHECK(tokens.dtype == DType::kI32 && tokens.count() == y.rows());
  STRETTO_CHECK(table.dtype == y.dtype && table.columns() == y.columns());
  const int64_t columns = y.columns();
  WithForm(columns, {table, y}, [&](auto form) {
    using F = decltype(form);
    const auto rows = PlainAs<typename F::Out>(y, columns);
    Walk("embed", PackBlocks(rows), {.threads = kWalkThreads}, EmbedPacks<F>,
         tokens.as<const int32_t>(), vocab.start, PlainAs<typename F::In>(table, columns), rows);
  });
}

const uint64_t* CudaOpsImpl::SortedRows(TensorView tokens) {
  const int64_t rows = tokens.count();
  STRETTO_CHECK(2 * static_cast<size_t>(rows) * sizeof(uint64_t) <= kCudaWorkspaceBytes);
  auto* keys = static_cast<uint64_t*>(options_.workspace);
  uint64_t* merged = keys + rows;
  Walk("sort_tokens", CeilDivide(rows, kSortThreads), {.threads = kSortThreads}, SortRuns,
       tokens.as<const int32_t>(), rows, keys);
  for (int64_t length = kSortThreads; length < rows; length *= 2) {
    Walk("merge_tokens", CeilDivide(rows, kWalkThreads), {.threads = kWalkThreads}, MergeRuns, keys,
         rows, length, merged);
    std::swap(keys, merged);
  }
  return keys;
}

void CudaOpsImpl::EmbedGrad(TensorView tokens, TensorView dx, VocabShard vocab, TensorView dtable) {
  STRETTO_CHECK(tokens.dtype == DType::kI32 && tokens.count() == dx.rows());
  STRETTO_CHECK(dtable.dtype == DType::kF32 && dtable.columns() == dx.columns());
  const uint64_t* keys = SortedRows(tokens);
  WithForm(dx.columns(), {dx}, [&](auto form) {
    using F = decltype(form);
    const auto gradients = PlainAs<typename F::In>(dx, dx.columns());
    Walk("embed_grad", PackBlocks(gradients), {.threads = kWalkThreads}, AddTokenRows<F>, keys,
         vocab.start, gradients, dtable.rows(), dtable.as<float>());
  });
}

void CudaOpsImpl::AddPosition(TensorView position, int64_t first_token, TensorView x) {
  STRETTO_CHECK(position.dtype == x.dtype && position.columns() == x.columns());
  WithForm(x.columns(), {position, x}, [&](auto form) {
    using F = decltype(form);
    const auto rows = PlainAs<typename F::Out>(x, x.columns());
    Walk("add_position", PackBlocks(rows), {.threads = kWalkThreads}, AddPositionPacks<F>,
         PlainAs<typename F::In>(position, x.columns()), first_token, rows);
  });
}

void CudaOpsImpl::PositionGrad(TensorView dx, int64_t first_token, TensorView dposition) {
  STRETTO_CHECK(dposition.dtype == DType::kF32 && dposition.columns() == dx.columns());
  WithForm(dx.columns(), {dx}, [&](auto form) {
    using In = typename decltype(form)::In;
    const In rows = PlainAs<In>(dx, dx.columns());
    In positions = rows;
    positions.data = nullptr;
    positions.count = dposition.rows();
    Walk("position_grad", PackBlocks(positions), {.threads = kWalkThreads},
         AddPositionRows<decltype(form)>, rows, first_token % positions.count, positions,
         dposition.as<float>());
  });
}

}  // namespace stretto::cuda
