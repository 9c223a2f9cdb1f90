// SPDX-License-Identifier: Apache-2.0
#pragma once
// The matrix products of one attention head, without the parts that causality and the boundaries of
// documents make zero. Sums run in ascending order, so the bits of an element do not depend on the
// block that computes it.
//
// Matrices are dense f32, their columns and rows padded to a multiple of kPadding.

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/vector_math.h"
#include "kernels/ops.h"

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

// Query rows [first, first + rows) of a head, which see no key before `keys_from`. `first` and
// `keys_from` are multiples of kPadding.
struct QueryRows {
  int64_t first, rows, keys_from;

  int64_t padded_rows() const { return (rows + kTileRows - 1) / kTileRows * kTileRows; }
};

// Where each token's document begins, of one sequence; null: all tokens are of one document.
struct Documents {
  const int32_t* first = nullptr;

  Documents(const TensorView& of_call, int64_t token)
      : first(of_call.data == nullptr ? nullptr : of_call.as<int32_t>() + token) {}
  int64_t FirstKey(int64_t query) const { return first == nullptr ? 0 : first[query]; }
};

// The queries of a block.
constexpr int64_t kQueryBlock = 64;

// Returns the block of queries from `first` on, which is a multiple of kQueryBlock.
inline QueryRows BlockOf(const AttentionShape& shape, const Documents& documents, int64_t first) {
  return {first, std::min(kQueryBlock, shape.sequence_length - first),
          documents.FirstKey(first) / kPadding * kPadding};
}

// The keys that a row sees, [begin, end), counted from the first key of its block.
struct Keys {
  int64_t begin, end;

  Keys(const QueryRows& block, const Documents& documents, int64_t query)
      : begin(documents.FirstKey(query) - block.keys_from), end(query + 1 - block.keys_from) {}
};

// c[row, key] = A(row) * b[depth, key], at least for the keys from `keys_from` up to the end of
// each row's tile. b is in strips of kTileColumns keys, [strips][b_rows][kTileColumns], which fit
// the first-level cache.
inline void MultiplyScores(QueryRows block, int64_t depth, Factor a, const float* b, int64_t b_rows,
                           float* c, int64_t ld) {
  for (int64_t key = block.keys_from; key < block.first + block.rows; key += kTileColumns) {
    const int64_t from = key > block.first ? (key - block.first) / kTileRows * kTileRows : 0;
    for (int64_t row = from; row < block.padded_rows(); row += kTileRows) {
      MultiplyTile(depth, a.At(row, 0), b + key * b_rows, kTileColumns, false, c + row * ld + key,
                   ld);
    }
  }
}

// c[row, columns] = sum over keys from `keys_from` on of a[row, key] * b[key, columns], where a is
// 0 after a row's tile.
inline void MultiplyValues(QueryRows block, int64_t columns, const float* a, int64_t ld,
                           const float* b, float* c) {
  for (int64_t column = 0; column < columns; column += kTileColumns) {
    for (int64_t row = 0; row < block.padded_rows(); row += kTileRows) {
      MultiplyTile(block.first + row + kTileRows - block.keys_from,
                   Factor{a, ld, 1}.At(row, block.keys_from),
                   b + block.keys_from * columns + column, columns, false,
                   c + row * columns + column, columns);
    }
  }
}

// c[key, columns] += sum over the block's rows of a[row, key] * b[row, columns] for the keys from
// `keys_from` on, where b starts at the block's first row. With `fresh`, the block's own keys are
// overwritten instead.
inline void AddTransposed(QueryRows block, bool fresh, int64_t columns, const float* a, int64_t ld,
                          const float* b, float* c) {
  for (int64_t key = block.keys_from; key < block.first + block.rows; key += kTileRows) {
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
