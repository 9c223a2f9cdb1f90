// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tiles of attention on tensor cores: rows of heads in shared memory, and a warp's products of
// them.
//
// The rows of a tile are padded by 16 bytes to an odd number of 16-byte pieces, so that the eight
// rows of an 8 x 8 matrix are in different banks.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/attention_call.h"
#include "kernels/cuda/mma.h"

namespace stretto::cuda {

// Whether the longest of a causal call's tiles would decide its time, because it is more than a
// quarter longer than a block's share of all. `tiles`: of each of `heads` heads, of which the i-th
// has i pieces of work; `blocks`: that run at once.
constexpr bool LongestDecides(int64_t tiles, int64_t heads, int64_t blocks) {
  // tiles > 1.25 (heads tiles (tiles + 1) / 2) / blocks
  return 8 * blocks > 5 * heads * (tiles + 1);
}

// A tile for sequences of several documents. It leaves out what all of its rows leave out, and a
// small one leaves out more.
template <class SmallTile>
struct OfDocuments : SmallTile {
  static constexpr bool kDocuments = true;
};

// Calls `body` with the std::type_identity of the call's tile, if there are tiles for its head
// dimension; otherwise returns false. Tile: by head dimension, whether it drops, and whether it is
// small.
template <template <int, bool, bool> class Tile, class Body>
bool WithTiles(const AttentionCall<BF16>& call, bool small, Body body) {
  const auto with = [&](auto head_dim) {
    STRETTO_CHECK(reinterpret_cast<uintptr_t>(call.qkv) % 16 == 0);
    constexpr int kDim = decltype(head_dim)::value;
    const auto with_size = [&](auto drop) {
      using Small = Tile<kDim, decltype(drop)::value, true>;
      if (call.documents != nullptr) {
        body(std::type_identity<OfDocuments<Small>>{});
      } else if (small) {
        body(std::type_identity<Small>{});
      } else {
        body(std::type_identity<Tile<kDim, decltype(drop)::value, false>>{});
      }
    };
    if (call.draws.threshold > 0) {
      with_size(std::true_type{});
    } else {
      with_size(std::false_type{});
    }
    return true;
  };
  switch (call.head_dim) {
    case 64:
      return with(std::integral_constant<int, 64>{});
    case 80:
      return with(std::integral_constant<int, 80>{});
    case 96:
      return with(std::integral_constant<int, 96>{});
    case 128:
      return with(std::integral_constant<int, 128>{});
  }
  return false;
}

// Small tiles have half the rows of large ones. A row is computed from the same slices of the other
// side in the same order, so no bit depends on the size: warps of small tiles have 16 queries and
// visit the slices that warps of large tiles visit for 32.
inline constexpr int kRowsOfVisit = 32;

template <int kHeadDim>
inline constexpr int kTileStride = kHeadDim + 8;
template <int kHeadDim>
inline constexpr size_t kTileRowBytes = kTileStride<kHeadDim> * sizeof(BF16);

// A warp's sums, 16 kM rows of 8 kN columns.
template <int kM, int kN>
using Sums = SumFragment[kM][kN];

// Items in descending order of work, dealt to blocks on `sms` SMs.
struct Deal {
  int items, sms;

  // Returns the item of a block's turn; one that there is not: the block has no more. Turns go back
  // and forth over the blocks, so that the block with the longest item of one turn gets the
  // shortest of the next. Within a turn, so do the rounds in which a device spreads blocks over its
  // SMs: each SM has one block before any has a second.
  __host__ __device__ constexpr int ItemOf(int turn, int block, int blocks) const {
    const int round = block / sms, first = round * sms;
    const int place = round % 2 == 0 ? block : first + std::min(first + sms, blocks) - 1 - block;
    return turn * blocks + (turn % 2 == 0 ? place : blocks - 1 - place);
  }
};

// Calls body(item) for the block's share of items, with all of shared memory free.
template <class Body>
__device__ __forceinline__ void ForEachItem(const Deal& deal, Body body) {
  const auto item_of = [&](int turn) {
    return deal.ItemOf(turn, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x));
  };
  for (int turn = 0, item; (item = item_of(turn)) < deal.items; ++turn) {
    __syncthreads();  // nobody reads the previous item's shared memory any more
    body(item);
  }
}

// An item of a list of tiles of queries, of which the last are the longest.
struct QueryWork {
  int head, sequence, first;  // query

  __device__ __forceinline__ QueryWork(const AttentionCall<BF16>& call, int items, int item,
                                       int queries) {
    const int per_tile = call.sequences * call.heads, i = item % per_tile;
    head = i % call.heads;
    sequence = i / call.heads;
    first = (items - 1 - item) / per_tile * queries;
  }
};

// Starts to copy rows [first, first + kRows) into a tile; rows beyond the head's end become zeros.
template <int kHeadDim, int kRows, int kThreads>
__device__ __forceinline__ void CopyTile(const HeadRows<const BF16>& from, int first, BF16* tile) {
  constexpr int kPieces = kHeadDim / 8, kStep = kThreads / kPieces;
  const int thread = ThreadNumber(), start = thread / kPieces, column = thread % kPieces * 8;
  if (kThreads % kPieces != 0 && start >= kStep) return;
  const BF16* row = from.Row(first + start) + column;
  tile += start * kTileStride<kHeadDim> + column;
  STRETTO_UNROLL
  for (int i = 0; i < kRows; i += kStep) {
    if (kRows % kStep != 0 && start + i >= kRows) return;
    const bool valid = first + start + i < from.count;
    CopyAsync<16>(tile + i * kTileStride<kHeadDim>, valid ? row : from.data, valid);
    row += kStep * from.stride;
  }
}

// What documents hide from the rows of a warp's lane: keys before the first that a row of queries
// sees, or queries from the end of those that see a row of keys.
template <class Tile>
struct HiddenKeys {
  int from[Tile::kDocuments ? Tile::kM : 1][2];

  // first: of the warp's queries.
  __device__ __forceinline__ HiddenKeys(const Documents& documents, int first) {
    if constexpr (Tile::kDocuments) {
      const LanePlace own = PlaceOfLane();
      STRETTO_UNROLL
      for (int i = 0; i < Tile::kM * 2; ++i)
        from[i / 2][i % 2] = documents.FirstKey(first + i * 8 + own.row);
    }
  }
  __device__ __forceinline__ bool Has(int m, int half, int key) const {
    if constexpr (Tile::kDocuments) return key < from[m][half];
    return false;
  }
};
template <class Tile>
struct HiddenQueries {
  int end[Tile::kDocuments ? Tile::kM : 1][2];

  // first: of the warp's keys.
  __device__ __forceinline__ HiddenQueries(const Documents& documents, int first) {
    if constexpr (Tile::kDocuments) {
      const LanePlace own = PlaceOfLane();
      STRETTO_UNROLL
      for (int i = 0; i < Tile::kM * 2; ++i)
        end[i / 2][i % 2] = documents.EndOfQueries(first + i * 8 + own.row);
    }
  }
  __device__ __forceinline__ bool Has(int m, int half, int query) const {
    if constexpr (Tile::kDocuments) return query >= end[m][half];
    return false;
  }
};

// Calls visit(keys, values, key) for every slice of the keys that a tile of queries may see, from
// the first on, through two stages of Tile::kKeys keys and values each. `key` is the slice's first.
// Earlier asynchronous copies have arrived in shared memory when it is called.
template <class Tile, class Visit>
__device__ __forceinline__ void ForEachKeySlice(const AttentionCall<BF16>& call,
                                                const QueryWork& work, BF16* stages, Visit visit) {
  constexpr int kKeys = Tile::kKeys, kStride = kTileStride<Tile::kHeadDim>;
  const auto load = [&](int tile) {
    BF16* const stage = stages + tile % 2 * 2 * kKeys * kStride;
    auto from = call.RowsOfQkv(call.qkv, work.sequence, call.KeyColumn(work.head / call.group));
    CopyTile<Tile::kHeadDim, kKeys, Tile::kThreads>(from, tile * kKeys, stage);
    from.data += Tile::kHeadDim;  // values
    CopyTile<Tile::kHeadDim, kKeys, Tile::kThreads>(from, tile * kKeys, stage + kKeys * kStride);
  };
  const int begin =
      Tile::kDocuments ? call.DocumentsOf(work.sequence).FirstKey(work.first) / kKeys : 0;
  load(begin);
  const int end = std::min(work.first + Tile::kQueries, call.length);
  for (int tile = begin; tile * kKeys < end; ++tile) {
    AwaitCopies();
    __syncthreads();  // the tile has arrived; nobody reads the previous one any more
    if ((tile + 1) * kKeys < end) load(tile + 1);
    const BF16* const k = stages + tile % 2 * 2 * kKeys * kStride;
    STRETTO_ROLLED
    for (int slice = 0; slice < kKeys; slice += Tile::kSlice)
      visit(k + slice * kStride, k + (kKeys + slice) * kStride, tile * kKeys + slice);
  }
}

// sums += left * right^T: 16 kM and 8 kN rows of tiles.
template <int kHeadDim, int kM, int kN>
__device__ __forceinline__ void MultiplyRows(const BF16* left, const BF16* right,
                                             Sums<kM, kN>& sums) {
  constexpr int kStride = kTileStride<kHeadDim>;
  const int lane = ThreadNumber() % kWarpSize;
  left += lane % 16 * kStride + lane / 16 * 8;
  right += (lane % 8 + lane / 16 * 8) * kStride + lane / 8 % 2 * 8;
  STRETTO_UNROLL
  for (int k = 0; k < kHeadDim; k += 16) {
    LeftFragment a[kM];
    STRETTO_UNROLL
    for (int m = 0; m < kM; ++m) LoadMatrices<false>(left + m * 16 * kStride + k, a[m].at);
    STRETTO_UNROLL
    for (int n = 0; n < kN; n += 2) {
      uint32_t b[4];
      LoadMatrices<false>(right + n * 8 * kStride + k, b);
      STRETTO_UNROLL
      for (int m = 0; m < kM; ++m) {
        MultiplyAdd(a[m], {b[0], b[1]}, sums[m][n]);
        MultiplyAdd(a[m], {b[2], b[3]}, sums[m][n + 1]);
      }
    }
  }
}

// sums += left * right: fragments of 16 kM rows and 16 kK columns, and a tile of 16 kK rows.
template <int kHeadDim, int kM, int kK>
__device__ __forceinline__ void MultiplyColumns(const LeftFragment (&left)[kM][kK],
                                                const BF16* right, Sums<kM, kHeadDim / 8>& sums) {
  constexpr int kStride = kTileStride<kHeadDim>;
  const int lane = ThreadNumber() % kWarpSize;
  right += lane % 16 * kStride + lane / 16 * 8;
  STRETTO_UNROLL
  for (int k = 0; k < kK; ++k) {
    STRETTO_UNROLL
    for (int n = 0; n < kHeadDim / 8; n += 2) {
      uint32_t b[4];
      LoadMatrices<true>(right + k * 16 * kStride + n * 8, b);
      STRETTO_UNROLL
      for (int m = 0; m < kM; ++m) {
        MultiplyAdd(left[m][k], {b[0], b[1]}, sums[m][n]);
        MultiplyAdd(left[m][k], {b[2], b[3]}, sums[m][n + 1]);
      }
    }
  }
}

// Converts sums, rounded, to the left factor of the next product.
template <int kM, int kN>
__device__ __forceinline__ void ToFragments(const Sums<kM, kN>& sums,
                                            LeftFragment (&fragments)[kM][kN / 2]) {
  STRETTO_UNROLL
  for (int m = 0; m < kM; ++m) {
    STRETTO_UNROLL
    for (int i = 0; i < kN * 2; ++i) {
      const float* pair = &sums[m][i / 2][i % 2 * 2];
      fragments[m][i / 4].at[i % 4] = RoundPair(pair[0], pair[1]);
    }
  }
}

// Writes a warp's sums, each row times its factor, to rows [first, first + 16 kM) of a head,
// through the same number of rows of a tile that only this warp uses. Rows beyond the head's end
// are skipped.
template <int kHeadDim, int kM>
__device__ __forceinline__ void StoreRows(const Sums<kM, kHeadDim / 8>& sums,
                                          const float (&factors)[kM][2], BF16* tile,
                                          const HeadRows<BF16>& to, int first) {
  constexpr int kStride = kTileStride<kHeadDim>, kPieces = kHeadDim / 8;
  const LanePlace own = PlaceOfLane();
  __syncwarp();
  STRETTO_UNROLL
  for (int m = 0; m < kM; ++m) {
    STRETTO_UNROLL
    for (int half = 0; half < 2; ++half) {
      BF16* const row = tile + (m * 16 + half * 8 + own.row) * kStride + own.column;
      STRETTO_UNROLL
      for (int n = 0; n < kPieces; ++n) {
        *reinterpret_cast<uint32_t*>(row + n * 8) = RoundPair(
            sums[m][n][half * 2] * factors[m][half], sums[m][n][half * 2 + 1] * factors[m][half]);
      }
    }
  }
  __syncwarp();
  for (int i = ThreadNumber() % kWarpSize; i < kM * 16 * kPieces; i += kWarpSize) {
    const int row = i / kPieces, column = i % kPieces * 8;
    if (first + row < to.count)
      StorePack(to.Row(first + row) + column, LoadPack(tile + row * kStride + column));
  }
}

__device__ __forceinline__ float QuadMax(float value) {
  value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, 1));
  return fmaxf(value, __shfl_xor_sync(kAllLanes, value, 2));
}
__device__ __forceinline__ float QuadSum(float value) {
  value += __shfl_xor_sync(kAllLanes, value, 1);
  return value + __shfl_xor_sync(kAllLanes, value, 2);
}

// Returns which probabilities of a 16 x 8 fragment of [queries][keys] are kept: bit i for element i
// of the lane's. `query` and `key` are the fragment's first. Each lane draws for one query and four
// keys, which two lanes share.
__device__ __forceinline__ unsigned KeptOfQueries(const HeadDraws& draws, const LanePlace& own,
                                                  int query, int key) {
  const int odd = own.column / 2 % 2;
  const unsigned mine = draws.Kept(query + own.row + 8 * odd, key / 4 + own.column / 4);
  const unsigned other = __shfl_xor_sync(kAllLanes, mine, 1);
  return odd == 0 ? (mine & 3) | (other & 3) << 2 : other >> 2 | (mine >> 2) << 2;
}

// The same for a fragment of [keys][queries]: bit 4 i for element i. Four lanes share four draws.
__device__ __forceinline__ unsigned KeptOfKeys(const HeadDraws& draws, const LanePlace& own,
                                               int key, int query) {
  const int turn = own.row % 4;
  unsigned all = draws.Kept(query + own.column + turn % 2, key / 4 + own.row / 4 + turn / 2 * 2)
                 << (4 * turn);
  all |= __shfl_xor_sync(kAllLanes, all, 4);
  all |= __shfl_xor_sync(kAllLanes, all, 8);
  return all >> turn;
}

}  // namespace stretto::cuda
