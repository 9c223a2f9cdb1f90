// SPDX-License-Identifier: Apache-2.0

// Attention on tensor cores, forward: a block has a tile of queries and visits the tiles of keys
// before it, with a running maximum and sum of each row (Dao 2023, FlashAttention-2, section 3.1).
#include "kernels/cuda/attention_tiles.h"
#include "kernels/cuda/cuda_ops_impl.h"

namespace stretto::cuda {
namespace {

template <int kDim, bool kDropped, bool kSmall>
struct Tile {
  static constexpr int kHeadDim = kDim;
  static constexpr bool kDrop = kDropped, kDocuments = false;
  static constexpr int kQueries = kSmall ? 64 : 128, kThreads = 128, kPerSm = kSmall ? 3 : 2;
  static constexpr int kKeys = kSmall && kDim == 128 ? 32 : 64;
  // The keys processed at once, as many as registers of large tiles allow.
  static constexpr int kSlice = (kDim < 128 ? 64 : 32) / (kDrop ? 2 : 1);
  static constexpr int kM = kQueries / (kThreads / kWarpSize) / 16;  // fragments of a warp's rows
  static constexpr int kN = kSlice / 8;
  static constexpr int kStride = kTileStride<kDim>;
  // Queries, then two stages of keys and values.
  static constexpr size_t kSharedBytes = (kQueries + 4 * kKeys) * kTileRowBytes<kDim>;
};

// The queries of one warp.
template <class Tile>
struct Rows {
  static constexpr int kM = Tile::kM, kN = Tile::kN;
  Sums<kM, Tile::kHeadDim / 8> out = {};
  float max[kM][2], sum[kM][2];
  int first;  // query
  HiddenKeys<Tile> hidden;

  __device__ __forceinline__ Rows(int first, const Documents& documents)
      : first(first), hidden(documents, first) {
    STRETTO_UNROLL
    for (int i = 0; i < kM * 2; ++i) {
      max[i / 2][i % 2] = -INFINITY;
      sum[i / 2][i % 2] = 0;
    }
  }

  // scale: of scores, times log2(e).
  __device__ __forceinline__ void Visit(const BF16* q, const BF16* k, const BF16* v, int key,
                                        float scale, const HeadDraws& draws) {
    if (key > (first | (kRowsOfVisit - 1))) return;  // the diagonal has been passed
    Sums<kM, kN> scores = {};
    MultiplyRows<Tile::kHeadDim>(q, k, scores);
    if (Tile::kDocuments || key + Tile::kSlice > first) Mask(key, scores);
    Softmax(scale, scores);
    if constexpr (Tile::kDrop) Drop(draws, key, scores);
    LeftFragment p[kM][kN / 2];
    ToFragments(scores, p);
    MultiplyColumns<Tile::kHeadDim>(p, v, out);
  }

  __device__ __forceinline__ void Mask(int key, Sums<kM, kN>& scores) {
    const LanePlace own = PlaceOfLane();
    STRETTO_UNROLL
    for (int m = 0; m < kM; ++m) {
      STRETTO_UNROLL
      for (int i = 0; i < kN * 4; ++i) {
        const int row = first + m * 16 + own.row + i % 4 / 2 * 8;
        const int column = key + i / 4 * 8 + own.column + i % 2;
        if (column > row || hidden.Has(m, i % 4 / 2, column)) scores[m][i / 4][i % 4] = -INFINITY;
      }
    }
  }

  // Replaces scores by exp(scaled score - maximum so far). Key 0 has been visited, so the maximum
  // is finite, except before a row's document, where all that is added is 0.
  __device__ __forceinline__ void Softmax(float scale, Sums<kM, kN>& scores) {
    STRETTO_UNROLL
    for (int row = 0; row < kM * 2; ++row) {
      const int m = row / 2, half = row % 2;
      float top = max[m][half];
      STRETTO_UNROLL
      for (int i = 0; i < kN * 2; ++i) top = fmaxf(top, scores[m][i / 2][half * 2 + i % 2]);
      top = QuadMax(top);
      const float finite = Tile::kDocuments && top == -INFINITY ? 0.0f : top;
      const float shrink = Exp2((max[m][half] - finite) * scale);
      max[m][half] = top;
      sum[m][half] *= shrink;
      STRETTO_UNROLL
      for (int i = 0; i < Tile::kHeadDim / 4; ++i) out[m][i / 2][half * 2 + i % 2] *= shrink;
      STRETTO_UNROLL
      for (int i = 0; i < kN * 2; ++i) {
        float& score = scores[m][i / 2][half * 2 + i % 2];
        score = Exp2(score * scale - finite * scale);
        sum[m][half] += score;
      }
    }
  }

  __device__ __forceinline__ void Drop(const HeadDraws& draws, int key, Sums<kM, kN>& p) {
    const LanePlace own = PlaceOfLane();
    STRETTO_UNROLL
    for (int m = 0; m < kM; ++m) {
      STRETTO_UNROLL
      for (int n = 0; n < kN; ++n) {
        const unsigned kept = KeptOfQueries(draws, own, first + m * 16, key + n * 8);
        STRETTO_UNROLL
        for (int i = 0; i < 4; ++i) p[m][n][i] = kept >> i & 1 ? p[m][n][i] : 0.0f;
      }
    }
  }

  // tile: the warp's queries, which are no longer needed. scale: of scores.
  __device__ __forceinline__ void Store(float scale, float drop_scale, BF16* tile,
                                        const HeadRows<BF16>& context, const HeadRows<float>& lse) {
    const LanePlace own = PlaceOfLane();
    float factors[kM][2];
    STRETTO_UNROLL
    for (int i = 0; i < kM * 2; ++i) {
      const float total = QuadSum(sum[i / 2][i % 2]);
      factors[i / 2][i % 2] = drop_scale / total;
      const int row = first + i * 8 + own.row;
      if (own.column == 0 && row < lse.count)
        *lse.Row(row) = max[i / 2][i % 2] * scale + logf(total);
    }
    StoreRows<Tile::kHeadDim>(out, factors, tile, context, first);
  }
};

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kPerSm)
    Forward(AttentionCall<BF16> call, Deal deal, BF16* context, float* lse) {
  constexpr int kHeadDim = Tile::kHeadDim, kStride = Tile::kStride;
  const int warp = ThreadNumber() / kWarpSize;
  BF16* const queries = SharedMemory<BF16>();
  BF16* const stages = queries + Tile::kQueries * kStride;
  BF16* const own = queries + warp * Tile::kM * 16 * kStride;
  ForEachItem(deal, [&](int item) {
    const QueryWork work(call, deal.items, item, Tile::kQueries);
    CopyTile<kHeadDim, Tile::kQueries, Tile::kThreads>(
        call.RowsOfQkv(call.qkv, work.sequence, call.QueryColumn(work.head)), work.first, queries);
    Rows<Tile> rows(work.first + warp * Tile::kM * 16, call.DocumentsOf(work.sequence));
    ForEachKeySlice<Tile>(call, work, stages, [&](const BF16* k, const BF16* v, int key) {
      rows.Visit(own, k, v, key, call.scale * kLog2E,
                 Tile::kDrop ? call.DrawsOf(work.sequence, work.head) : HeadDraws{});
    });
    rows.Store(call.scale, call.draws.scale, own,
               call.RowsOfContext(context, work.sequence, work.head),
               {call.LseOf(lse, work.sequence, work.head), 1, call.length});
  });
}

}  // namespace

bool CudaOpsImpl::TiledAttention(const AttentionCall<BF16>& call, BF16* context, float* lse) {
  using Large = Tile<64, false, false>;  // one for all: only sizes that all have are used
  const bool small = LongestDecides((call.length + Large::kQueries - 1) / Large::kQueries,
                                    call.sequences * call.heads, FillingBlocks(Large::kPerSm));
  return WithTiles<Tile>(call, small, [&](auto tile) {
    using T = typename decltype(tile)::type;
    const int tiles = (call.length + T::kQueries - 1) / T::kQueries;
    const Deal deal{tiles * call.sequences * call.heads, options_.sm_count};
    Walk("attention", deal.items, {T::kThreads, T::kPerSm, T::kSharedBytes}, Forward<T>, call, deal,
         context, lse);
  });
}

}  // namespace stretto::cuda
