#include "kernels/cuda/rows.h"

namespace stretto::cuda {
namespace {

// y[row] = table[token - start], or 0 where the table does not hold it.
template <class F>
__global__ void EmbedPacks(const int32_t* tokens, int64_t start, typename F::In table,
                           typename F::Out y) {
  ForEachPack(y, [&](int64_t row, int column) {
    const int64_t from = tokens[row] - start;
    const bool here = from >= 0 && from < table.count;
    y.Store(row, column, here ? table.Load(from, column) : Pack<typename F::T>{});
  });
}

// Rows by (token, row). run: how many rows the token has, at the first of them, and 0 at the
// others.
struct Place {
  int32_t row, run;
};

// A row's place is the number of those before it: as many comparisons as rows squared, in one
// kernel and without atomics.
constexpr int kRankThreads = 256;
__global__ void __launch_bounds__(kRankThreads)
    RankTokens(const int32_t* tokens, int rows, Place* places) {
  __shared__ int32_t tile[kRankThreads];
  const int self = static_cast<int>(threadIdx.x);
  for (int first = static_cast<int>(blockIdx.x) * kRankThreads; first < rows;
       first += static_cast<int>(gridDim.x) * kRankThreads) {
    const int row = first + self;
    const int32_t token = row < rows ? tokens[row] : 0;
    int less = 0, equal = 0, equal_before = 0;
    for (int other = 0; other < rows; other += kRankThreads) {
      if (other + self < rows) tile[self] = tokens[other + self];
      __syncthreads();
      const int left = rows - other, before = row - other;
      const int count = left < kRankThreads ? left : kRankThreads;
#pragma unroll 8
      for (int i = 0; i < count; ++i) {
        less += tile[i] < token;
        equal += tile[i] == token;
        equal_before += tile[i] == token && i < before;
      }
      __syncthreads();
    }
    if (row < rows) places[less + equal_before] = {row, equal_before == 0 ? equal : 0};
  }
}

// The thread at the first of a token's rows adds them all to the table, in ascending order.
template <class F>
__global__ void AddTokenRows(const int32_t* tokens, const Place* places, int64_t start,
                             typename F::In dx, int64_t table_rows, float* dtable) {
  using T = typename F::T;
  ForEachPack(dx, [&](int64_t place, int column) {
    const int run = places[place].run;
    if (run == 0) return;
    const int64_t to = tokens[places[place].row] - start;
    if (to < 0 || to >= table_rows) return;
    float* out = dtable + to * dx.columns + column;
    float sums[kPack<T>];
    for (int k = 0; k < kPack<T>; ++k) sums[k] = column + k < dx.columns ? out[k] : 0.0f;
#pragma unroll 4
    for (int i = 0; i < run; ++i) {
      const Pack<T> row = dx.Load(places[place + i].row, column);
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

// dposition[(first_row + row) % length] += dx[row], rows ascending. positions: as many rows as
// dposition, in the form of dx, and not read.
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

void CudaOpsImpl::EmbedGrad(TensorView tokens, TensorView dx, VocabShard vocab, TensorView dtable) {
  STRETTO_CHECK(tokens.dtype == DType::kI32 && tokens.count() == dx.rows());
  STRETTO_CHECK(dtable.dtype == DType::kF32 && dtable.columns() == dx.columns());
  const int64_t rows = dx.rows();
  STRETTO_CHECK(static_cast<size_t>(rows) * sizeof(Place) <= kCudaWorkspaceBytes);
  auto* places = static_cast<Place*>(options_.workspace);
  const auto* token = tokens.as<const int32_t>();
  Walk("rank_tokens", CeilDivide(rows, kRankThreads), {.threads = kRankThreads}, RankTokens, token,
       static_cast<int>(rows), places);
  WithForm(dx.columns(), {dx}, [&](auto form) {
    using F = decltype(form);
    const auto gradients = PlainAs<typename F::In>(dx, dx.columns());
    Walk("embed_grad", PackBlocks(gradients), {.threads = kWalkThreads}, AddTokenRows<F>, token,
         places, vocab.start, gradients, dtable.rows(), dtable.as<float>());
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
