// SPDX-License-Identifier: Apache-2.0
#pragma once
// The matrix products of one attention head, without the parts that causality makes zero. Sums run
// in ascending order, so the bits of an element do not depend on the block that computes it.
//
// Matrices are dense f32, their columns and rows padded to a multiple of kPadding.

#include <cstdint>
#include <cstring>

#include "kernels/cpu/vector_math.h"

namespace stretto::cpu::STRETTO_CPU_OPS {

constexpr int64_t kTileRows = kLanes / 2, kTileColumns = 2 * kLanes;
constexpr int64_t kPadding = 32;  // a multiple of a tile's rows and columns

constexpr int64_t Padded(int64_t size) { return (size + kPadding - 1) / kPadding * kPadding; }

// A factor whose element (i, l) is data[i * row + l * column].
struct Factor {
  const float* data;
  int64_t row, column;

  Factor At(int64_t i, int64_t l) const { return {data + i * row + l * column, row, column}; }
};

// c[kTileRows, kTileColumns] = (add ? c : 0) + A * b[depth, kTileColumns].
inline void MultiplyTile(int64_t depth, Factor a, const float* b, int64_t b_row, bool add, float* c,
                         int64_t c_row) {
  Lanes sum[kTileRows][2];
  const auto at = [](auto* data) { return reinterpret_cast<Lanes*>(const_cast<float*>(data)); };
  for (int64_t i = 0; i < kTileRows; ++i) {
    sum[i][0] = add ? *at(c + i * c_row) : Lanes{};
    sum[i][1] = add ? *at(c + i * c_row + kLanes) : Lanes{};
  }
  for (int64_t l = 0; l < depth; ++l) {
    const Lanes left = *at(b), right = *at(b + kLanes);
#pragma GCC unroll 8
    for (int64_t i = 0; i < kTileRows; ++i) {
      const float x = a.data[i * a.row];
      sum[i][0] += x * left;
      sum[i][1] += x * right;
    }
    a.data += a.column;
    b += b_row;
  }
  for (int64_t i = 0; i < kTileRows; ++i) {
    *at(c + i * c_row) = sum[i][0];
    *at(c + i * c_row + kLanes) = sum[i][1];
  }
}

// Query rows [first, first + rows) of a head; `first` is a multiple of kPadding.
struct QueryRows {
  int64_t first, rows;

  int64_t padded_rows() const { return (rows + kTileRows - 1) / kTileRows * kTileRows; }
};

// c[row, key] = A(row) * b[depth, key], at least for the keys up to the end of each row's tile. b
// is in strips of kTileColumns keys, [strips][b_rows][kTileColumns], which fit the first-level
// cache.
inline void MultiplyScores(QueryRows block, int64_t depth, Factor a, const float* b, int64_t b_rows,
                           float* c, int64_t ld) {
  for (int64_t key = 0; key < block.first + block.rows; key += kTileColumns) {
    const int64_t from = key > block.first ? (key - block.first) / kTileRows * kTileRows : 0;
    for (int64_t row = from; row < block.padded_rows(); row += kTileRows) {
      MultiplyTile(depth, a.At(row, 0), b + key * b_rows, kTileColumns, false, c + row * ld + key,
                   ld);
    }
  }
}

// c[row, columns] = sum over keys of a[row, key] * b[key, columns], where a is 0 after a row's
// tile.
inline void MultiplyValues(QueryRows block, int64_t columns, const float* a, int64_t ld,
                           const float* b, float* c) {
  for (int64_t column = 0; column < columns; column += kTileColumns) {
    for (int64_t row = 0; row < block.padded_rows(); row += kTileRows) {
      MultiplyTile(block.first + row + kTileRows, {a + row * ld, ld, 1}, b + column, columns, false,
                   c + row * columns + column, columns);
    }
  }
}

// c[key, columns] += sum over the block's rows of a[row, key] * b[row, columns], where b starts at
// the block's first row. With `fresh`, the block's own keys are overwritten instead.
inline void AddTransposed(QueryRows block, bool fresh, int64_t columns, const float* a, int64_t ld,
                          const float* b, float* c) {
  for (int64_t key = 0; key < block.first + block.rows; key += kTileRows) {
    const int64_t from = key > block.first ? key - block.first : 0;
    for (int64_t column = 0; column < columns; column += kTileColumns) {
      MultiplyTile(block.rows - from, {a + from * ld + key, 1, ld}, b + from * columns + column,
                   columns, !fresh || key < block.first, c + key * columns + column, columns);
    }
  }
}

// The source of a lane when the second halves of every 2 * kHalf lanes of one vector are exchanged
// with the first halves of another.
template <int kHalf>
constexpr int OfFirst(int lane) {
  return lane & kHalf ? static_cast<int>(kLanes) + lane - kHalf : lane;
}
template <int kHalf>
constexpr int OfSecond(int lane) {
  return lane & kHalf ? static_cast<int>(kLanes) + lane : lane + kHalf;
}

// One step in transposing a square.
template <int kHalf>
void ExchangeHalves(Lanes* rows) {
#pragma GCC unroll 16
  for (int row = 0; row < kLanes; ++row) {
    if (row & kHalf) continue;
    const Lanes a = rows[row], b = rows[row + kHalf];
    rows[row] = Shuffle<OfFirst<kHalf>>(a, b);
    rows[row + kHalf] = Shuffle<OfSecond<kHalf>>(a, b);
  }
}

// to = from[rows, columns]^T in strips of kTileColumns of its columns; both multiples of kPadding.
inline void Transpose(const float* from, int64_t rows, int64_t columns, float* to) {
  for (int64_t row = 0; row < rows; row += kLanes) {
    for (int64_t column = 0; column < columns; column += kLanes) {
      Lanes square[kLanes];
      for (int64_t i = 0; i < kLanes; ++i) {
        std::memcpy(&square[i], from + (row + i) * columns + column, sizeof(Lanes));
      }
      ExchangeHalves<1>(square);
      ExchangeHalves<2>(square);
      ExchangeHalves<4>(square);
      if constexpr (kLanes > 8) ExchangeHalves<8>(square);
      for (int64_t i = 0; i < kLanes; ++i) {
        const int64_t strip = row / kTileColumns * kTileColumns;
        std::memcpy(to + strip * columns + (column + i) * kTileColumns + (row - strip), &square[i],
                    sizeof(Lanes));
      }
    }
  }
}

}  // namespace stretto::cpu::STRETTO_CPU_OPS
