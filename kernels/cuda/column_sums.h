// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sums over rows: gradients of vectors. Rows are divided into parts by the shape alone. A block
// sums a part of a tile of columns; a second kernel adds the parts in ascending order.

#include "kernels/cuda/rows.h"

namespace stretto::cuda {

inline constexpr int kSumThreads = 256;
inline constexpr int kSumWarps = kSumThreads / kWarpSize;
inline constexpr int64_t kSumBlocks = 1024;  // the target: enough to fill a large device

struct ColumnParts {
  int64_t parts, rows_of_part;
  int tiles;  // of kWarpSize packs
};
template <class T>
ColumnParts PartsOf(int64_t rows, int64_t columns) {
  const int64_t tiles = CeilDivide(columns, kWarpSize * kPack<T>);
  const int64_t most = CeilDivide(rows, 2 * kSumWarps);
  const int64_t parts = std::clamp<int64_t>(kSumBlocks / tiles, 1, std::max<int64_t>(most, 1));
  const int64_t rows_of_part = std::max<int64_t>(CeilDivide(rows, parts), 1);
  return {CeilDivide(rows, rows_of_part), rows_of_part, static_cast<int>(tiles)};
}

// sums: f32[parts][kSums][columns]. A warp sums every kSumWarps-th row of the part, a lane a pack.
template <class Terms>
__global__ void __launch_bounds__(kSumThreads)
    SumColumnParts(Terms terms, ColumnParts cut, int64_t rows, int columns, float* sums) {
  constexpr int kWidth = kPack<typename Terms::T>, kTile = kWarpSize * kWidth;
  __shared__ float places[kSumWarps][Terms::kSums][kTile];
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  for (int64_t item = blockIdx.x; item < cut.parts * cut.tiles; item += gridDim.x) {
    const int64_t part = item / cut.tiles;
    const int tile = static_cast<int>(item - part * cut.tiles) * kTile;
    const int64_t end = std::min(rows, (part + 1) * cut.rows_of_part);
    float own[Terms::kSums][kWidth] = {};
    if (tile + lane * kWidth < columns) {
#pragma unroll 2
      for (int64_t row = part * cut.rows_of_part + warp; row < end; row += kSumWarps)
        terms.Add(row, tile + lane * kWidth, own);
    }
    for (int s = 0; s < Terms::kSums; ++s)
      for (int k = 0; k < kWidth; ++k) places[warp][s][lane * kWidth + k] = own[s][k];
    __syncthreads();
    for (int at = static_cast<int>(threadIdx.x); at < Terms::kSums * kTile; at += kSumThreads) {
      const int s = at / kTile, column = at % kTile;
      float total = 0;
      for (int w = 0; w < kSumWarps; ++w) total += places[w][s][column];
      if (tile + column < columns)
        sums[(part * Terms::kSums + s) * columns + tile + column] = total;
    }
    __syncthreads();
  }
}

template <int kSums>
struct SumTargets {
  float* at[kSums];
};

// A block sums kWarpSize columns, a warp every kSumWarps-th part.
template <int kSums>
__global__ void __launch_bounds__(kSumThreads)
    AddColumnParts(const float* sums, int64_t parts, int columns, SumTargets<kSums> out) {
  __shared__ float places[kSumWarps][kWarpSize];
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int64_t width = int64_t{kSums} * columns;
  for (int64_t first = int64_t{blockIdx.x} * kWarpSize; first < width;
       first += int64_t{gridDim.x} * kWarpSize) {
    const int64_t column = first + lane;
    float total = 0;
    if (column < width) {
#pragma unroll 8
      for (int64_t part = warp; part < parts; part += kSumWarps)
        total += sums[part * width + column];
    }
    places[warp][lane] = total;
    __syncthreads();
    if (warp == 0 && column < width) {
      total = 0;
      for (int w = 0; w < kSumWarps; ++w) total += places[w][lane];
      const int s = static_cast<int>(column / columns);
      out.at[s][column - int64_t{s} * columns] += total;
    }
    __syncthreads();
  }
}

// Terms: kSums sums of packs of T; Add(row, column, sums) adds the terms of a row.
template <class Terms>
void CudaOpsImpl::SumColumns(const char* name, const Terms& terms, int64_t rows, int64_t columns,
                             std::array<float*, Terms::kSums> out) {
  constexpr int kSums = Terms::kSums;
  const ColumnParts cut = PartsOf<typename Terms::T>(rows, columns);
  auto* sums = static_cast<float*>(options_.workspace);
  STRETTO_CHECK(static_cast<size_t>(cut.parts * kSums * columns) * sizeof(float) <=
                kCudaWorkspaceBytes);
  Walk(name, cut.parts * cut.tiles, {.threads = kSumThreads}, SumColumnParts<Terms>, terms, cut,
       rows, static_cast<int>(columns), sums);
  AddParts(name, cut.parts, columns, out);
}

template <size_t kSums>
void CudaOpsImpl::AddParts(const char* name, int64_t parts, int64_t columns,
                           std::array<float*, kSums> out) {
  constexpr int kCount = static_cast<int>(kSums);
  SumTargets<kCount> targets;
  std::copy(out.begin(), out.end(), targets.at);
  Walk(name, CeilDivide(kCount * columns, kWarpSize), {.threads = kSumThreads},
       AddColumnParts<kCount>, static_cast<const float*>(options_.workspace), parts,
       static_cast<int>(columns), targets);
}

}  // namespace stretto::cuda
