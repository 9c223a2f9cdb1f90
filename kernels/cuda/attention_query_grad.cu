// SPDX-License-Identifier: Apache-2.0

// The gradient of attention's queries on tensor cores, with probabilities recomputed from lse (Dao
// 2023, FlashAttention-2, section 3.1): a block has a tile of queries and visits the keys before
// it. The gradients of keys and values have a kernel of their own, so that no sum depends on the
// order of blocks.
#include "kernels/cuda/attention_tiles.h"
#include "kernels/cuda/cuda_ops_impl.h"

namespace stretto::cuda {
namespace {

template <int kDim, bool kDropped, bool kSmall>
struct Tile {
  static constexpr int kHeadDim = kDim;
  static constexpr bool kDrop = kDropped, kDocuments = false;
  static constexpr int kQueries = kSmall ? 64 : 128, kThreads = 128, kPerSm = kSmall ? 3 : 2;
  static constexpr int kKeys = 32;
  static constexpr int kM = kQueries / (kThreads / kWarpSize) / 16;    // fragments of a warp's rows
  static constexpr int kSlice = kDim == 128 && Tile::kDrop ? 16 : 32;  // keys at a time: registers
  static constexpr int kN = kSlice / 8;
  static constexpr int kStride = kTileStride<kDim>;
  // Queries and their dcontext, then two stages of keys and values.
  static constexpr size_t kSharedBytes = (2 * kQueries + 4 * kKeys) * kTileRowBytes<kDim>;
};

// The gradients of queries in one warp's rows.
template <class Tile>
struct Rows {
  static constexpr int kM = Tile::kM, kN = Tile::kN;
  Sums<kM, Tile::kHeadDim / 8> dq = {};
  RowStatistics statistics[kM][2];
  int first;  // query
  float drop_scale;
  HiddenKeys<Tile> hidden;

  __device__ __forceinline__ Rows(int first, int length, const RowStatistics* of_sequence,
                                  float drop_scale, const Documents& documents)
      : first(first), drop_scale(drop_scale), hidden(documents, first) {
    const LanePlace own = PlaceOfLane();
    STRETTO_UNROLL
    for (int i = 0; i < kM * 2; ++i) {
      const int row = first + i * 8 + own.row;
      statistics[i / 2][i % 2] = row < length ? of_sequence[row] : RowStatistics{0, 0};
    }
  }

  // scale: of scores, times log2(e).
  __device__ __forceinline__ void Visit(const BF16* q, const BF16* dcontext, const BF16* k,
                                        const BF16* v, int key, float scale,
                                        const HeadDraws& draws) {
    if (key > (first | (kRowsOfVisit - 1))) return;
    Sums<kM, kN> p = {}, dp = {};
    MultiplyRows<Tile::kHeadDim>(q, k, p);
    MultiplyRows<Tile::kHeadDim>(dcontext, v, dp);
    const LanePlace own = PlaceOfLane();
    const bool diagonal = key + Tile::kSlice > first;
    STRETTO_UNROLL
    for (int m = 0; m < kM; ++m) {
      STRETTO_UNROLL
      for (int n = 0; n < kN; ++n) {
        const unsigned kept =
            Tile::kDrop ? KeptOfQueries(draws, own, first + m * 16, key + n * 8) : 0;
        STRETTO_UNROLL
        for (int i = 0; i < 4; ++i) {
          const RowStatistics& row = statistics[m][i / 2];
          float d = dp[m][n][i];
          if constexpr (Tile::kDrop) d = kept >> i & 1 ? d * drop_scale : 0.0f;
          d = Exp2(p[m][n][i] * scale - row.lse) * (d - row.delta);
          const int query = first + m * 16 + own.row + i / 2 * 8;
          const int column = key + n * 8 + own.column + i % 2;
          const bool unseen = (diagonal && column > query) || hidden.Has(m, i / 2, column);
          dp[m][n][i] = unseen ? 0.0f : d;
        }
      }
    }
    LeftFragment ds[kM][kN / 2];
    ToFragments(dp, ds);
    MultiplyColumns<Tile::kHeadDim>(ds, k, dq);
  }

  __device__ __forceinline__ void Store(float scale, BF16* tile, const HeadRows<BF16>& to) {
    float factors[kM][2];
    STRETTO_UNROLL
    for (int i = 0; i < kM * 2; ++i) factors[i / 2][i % 2] = scale;
    StoreRows<Tile::kHeadDim>(dq, factors, tile, to, first);
  }
};

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kPerSm)
    Backward(AttentionCall<BF16> call, Deal deal, Gradients all) {
  constexpr int kHeadDim = Tile::kHeadDim, kStride = Tile::kStride;
  const int warp = ThreadNumber() / kWarpSize;
  BF16* const queries = SharedMemory<BF16>();
  BF16* const dcontexts = queries + Tile::kQueries * kStride;
  BF16* const stages = dcontexts + Tile::kQueries * kStride;
  const int own = warp * Tile::kM * 16;
  ForEachItem(deal, [&](int item) {
    const QueryWork work(call, deal.items, item, Tile::kQueries);
    CopyTile<kHeadDim, Tile::kQueries, Tile::kThreads>(
        call.RowsOfQkv(call.qkv, work.sequence, call.QueryColumn(work.head)), work.first, queries);
    CopyTile<kHeadDim, Tile::kQueries, Tile::kThreads>(
        call.RowsOfContext(all.dcontext, work.sequence, work.head), work.first, dcontexts);
    Rows<Tile> rows(work.first + own, call.length,
                    StatisticsOf(call, all.statistics, work.sequence, work.head), call.draws.scale,
                    call.DocumentsOf(work.sequence));
    ForEachKeySlice<Tile>(call, work, stages, [&](const BF16* k, const BF16* v, int key) {
      rows.Visit(queries + own * kStride, dcontexts + own * kStride, k, v, key, call.scale * kLog2E,
                 Tile::kDrop ? call.DrawsOf(work.sequence, work.head) : HeadDraws{});
    });
    rows.Store(call.scale, queries + own * kStride,
               call.RowsOfQkv(all.dqkv, work.sequence, call.QueryColumn(work.head)));
  });
}

}  // namespace

bool CudaOpsImpl::TiledQueryGrad(const AttentionCall<BF16>& call, const Gradients& all) {
  using Large = Tile<64, false, false>;  // one for all: only sizes that all have are used
  const bool small = LongestDecides((call.length + Large::kQueries - 1) / Large::kQueries,
                                    call.sequences * call.heads, FillingBlocks(Large::kPerSm));
  return WithTiles<Tile>(call, small, [&](auto tile) {
    using T = typename decltype(tile)::type;
    const int tiles = (call.length + T::kQueries - 1) / T::kQueries;
    const Deal deal{tiles * call.sequences * call.heads, options_.sm_count};
    Walk("attention_grad.queries", deal.items, {T::kThreads, T::kPerSm, T::kSharedBytes},
         Backward<T>, call, deal, all);
  });
}

}  // namespace stretto::cuda
