// SPDX-License-Identifier: Apache-2.0

// The gradients of attention's keys and values on tensor cores (see attention_query_grad.cu): a
// block has a tile of keys and visits the queries after it, head by head of the group that shares
// them.
#include "kernels/cuda/attention_tiles.h"
#include "kernels/cuda/cuda_ops_impl.h"

namespace stretto::cuda {
namespace {

template <int kDim, bool kDropped, bool kSmall>
struct Tile {
  static constexpr int kHeadDim = kDim;
  static constexpr bool kDrop = kDropped, kDocuments = false;
  static constexpr int kKeys = kSmall ? 64 : 128, kThreads = 2 * kKeys, kPerSm = kSmall ? 2 : 1;
  static constexpr int kQueries = 64;
  static constexpr int kM = kKeys / (kThreads / kWarpSize) / 16;
  static constexpr int kSlice = kDim == 128 ? 32 : 64;  // queries at a time: registers
  static constexpr int kN = kSlice / 8;
  static constexpr int kStride = kTileStride<kDim>;
  // Keys and values, then two stages of queries and their dcontext, then of their statistics.
  static constexpr size_t kStatisticsAt = (2 * kKeys + 4 * kQueries) * kTileRowBytes<kDim>;
  static constexpr size_t kSharedBytes = kStatisticsAt + 2 * kQueries * sizeof(RowStatistics);
};

// The gradients of keys and values in one warp's rows. Scores are transposed: [keys][queries].
template <class Tile>
struct Rows {
  static constexpr int kM = Tile::kM, kN = Tile::kN;
  Sums<kM, Tile::kHeadDim / 8> dk = {}, dv = {};
  int first;  // key
  float drop_scale;
  HiddenQueries<Tile> hidden;

  __device__ __forceinline__ Rows(int first, float drop_scale, const Documents& documents)
      : first(first), drop_scale(drop_scale), hidden(documents, first) {}

  // Queries beyond the head's end are zeros with zero statistics, so they add nothing. scale: of
  // scores, times log2(e).
  __device__ __forceinline__ void Visit(const BF16* k, const BF16* v, const BF16* q,
                                        const BF16* dcontext, const RowStatistics* statistics,
                                        int query, float scale, const HeadDraws& draws) {
    if (first >= query + Tile::kSlice) return;
    Sums<kM, kN> p = {}, dp = {};
    MultiplyRows<Tile::kHeadDim>(k, q, p);
    MultiplyRows<Tile::kHeadDim>(v, dcontext, dp);
    const LanePlace own = PlaceOfLane();
    const bool diagonal = first + kM * 16 > query;
    STRETTO_UNROLL
    for (int n = 0; n < kN; ++n) {
      const float4 pair = *reinterpret_cast<const float4*>(statistics + n * 8 + own.column);
      STRETTO_UNROLL
      for (int m = 0; m < kM; ++m) {
        const unsigned kept =
            Tile::kDrop ? KeptOfKeys(draws, own, first + m * 16, query + n * 8) : 0;
        STRETTO_UNROLL
        for (int i = 0; i < 4; ++i) {
          const float lse = i % 2 == 0 ? pair.x : pair.z, delta = i % 2 == 0 ? pair.y : pair.w;
          float d = dp[m][n][i], e = Exp2(p[m][n][i] * scale - lse);
          const int key = first + m * 16 + own.row + i / 2 * 8;
          const int column = query + n * 8 + own.column + i % 2;
          if ((diagonal && key > column) || hidden.Has(m, i / 2, column)) e = 0;
          const bool keep = !Tile::kDrop || (kept >> (4 * i) & 1) != 0;
          if constexpr (Tile::kDrop) d = keep ? d * drop_scale : 0.0f;
          dp[m][n][i] = e * (d - delta);
          p[m][n][i] = keep ? e : 0.0f;
        }
      }
    }
    LeftFragment fragments[kM][kN / 2];
    ToFragments(p, fragments);
    MultiplyColumns<Tile::kHeadDim>(fragments, dcontext, dv);
    ToFragments(dp, fragments);
    MultiplyColumns<Tile::kHeadDim>(fragments, q, dk);
  }

  __device__ __forceinline__ void Store(float scale, BF16* keys, BF16* values,
                                        const HeadRows<BF16>& to_k, const HeadRows<BF16>& to_v) {
    float of_k[kM][2], of_v[kM][2];
    STRETTO_UNROLL
    for (int i = 0; i < kM * 2; ++i) {
      of_k[i / 2][i % 2] = scale;
      of_v[i / 2][i % 2] = drop_scale;
    }
    StoreRows<Tile::kHeadDim>(dk, of_k, keys, to_k, first);
    StoreRows<Tile::kHeadDim>(dv, of_v, values, to_v, first);
  }
};

// The work of a block of Backward.
template <class Tile>
struct KeyWork {
  int sequence, kv_head, first;
  int steps;  // tiles of queries per head, without those that see none of the keys

  __device__ __forceinline__ KeyWork(const AttentionCall<BF16>& call, int item) {
    const int per_tile = call.sequences * call.kv_heads(), i = item % per_tile;
    kv_head = i % call.kv_heads();
    sequence = i / call.kv_heads();
    first = item / per_tile * Tile::kKeys;  // the first are the longest
    const int end = Tile::kDocuments ? call.DocumentsOf(sequence).EndOfQueries(
                                           std::min(first + Tile::kKeys, call.length) - 1)
                                     : call.length;
    steps = (end - first + Tile::kQueries - 1) / Tile::kQueries;
  }
  __device__ __forceinline__ int Head(int group, int step) const {
    return kv_head * group + step / steps;
  }
  __device__ __forceinline__ int Query(int step) const {
    return first + step % steps * Tile::kQueries;
  }
};

// Two stages of queries in shared memory.
template <class Tile>
struct QueryStages {
  BF16* tiles;
  RowStatistics* statistics;

  __device__ __forceinline__ BF16* Queries(int step) const {
    return tiles + step % 2 * 2 * Tile::kQueries * Tile::kStride;
  }
  __device__ __forceinline__ BF16* Dcontext(int step) const {
    return Queries(step) + Tile::kQueries * Tile::kStride;
  }
  __device__ __forceinline__ RowStatistics* Statistics(int step) const {
    return statistics + step % 2 * Tile::kQueries;
  }

  __device__ __forceinline__ void Load(const AttentionCall<BF16>& call, const Gradients& all,
                                       int sequence, int head, int query, int step) const {
    CopyTile<Tile::kHeadDim, Tile::kQueries, Tile::kThreads>(
        call.RowsOfQkv(call.qkv, sequence, call.QueryColumn(head)), query, Queries(step));
    CopyTile<Tile::kHeadDim, Tile::kQueries, Tile::kThreads>(
        call.RowsOfContext(all.dcontext, sequence, head), query, Dcontext(step));
    const int i = ThreadNumber();
    if (i >= Tile::kQueries) return;
    const bool valid = query + i < call.length;
    const RowStatistics* const from = StatisticsOf(call, all.statistics, sequence, head);
    CopyAsync<sizeof(RowStatistics)>(Statistics(step) + i, from + (valid ? query + i : 0), valid);
  }
};

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kPerSm)
    Backward(AttentionCall<BF16> call, Deal deal, Gradients all) {
  constexpr int kHeadDim = Tile::kHeadDim, kStride = Tile::kStride;
  const int own = ThreadNumber() / kWarpSize * Tile::kM * 16;
  BF16* const keys = SharedMemory<BF16>();
  BF16* const values = keys + Tile::kKeys * kStride;
  const QueryStages<Tile> stages{
      values + Tile::kKeys * kStride,
      reinterpret_cast<RowStatistics*>(SharedMemory<unsigned char>() + Tile::kStatisticsAt)};
  ForEachItem(deal, [&](int item) {
    const KeyWork<Tile> work(call, item);
    const int64_t k = call.KeyColumn(work.kv_head), v = call.ValueColumn(work.kv_head);
    const auto load = [&](int step) {
      stages.Load(call, all, work.sequence, work.Head(call.group, step), work.Query(step), step);
    };
    CopyTile<kHeadDim, Tile::kKeys, Tile::kThreads>(call.RowsOfQkv(call.qkv, work.sequence, k),
                                                    work.first, keys);
    CopyTile<kHeadDim, Tile::kKeys, Tile::kThreads>(call.RowsOfQkv(call.qkv, work.sequence, v),
                                                    work.first, values);
    load(0);
    Rows<Tile> rows(work.first + own, call.draws.scale, call.DocumentsOf(work.sequence));
    for (int step = 0; step < work.steps * call.group; ++step) {
      AwaitCopies();
      __syncthreads();  // the step's queries have arrived; nobody reads the previous ones any more
      if (step + 1 < work.steps * call.group) load(step + 1);
      STRETTO_ROLLED
      for (int slice = 0; slice < Tile::kQueries; slice += Tile::kSlice) {
        rows.Visit(
            keys + own * kStride, values + own * kStride, stages.Queries(step) + slice * kStride,
            stages.Dcontext(step) + slice * kStride, stages.Statistics(step) + slice,
            work.Query(step) + slice, call.scale * kLog2E,
            Tile::kDrop ? call.DrawsOf(work.sequence, work.Head(call.group, step)) : HeadDraws{});
      }
    }
    rows.Store(call.scale, keys + own * kStride, values + own * kStride,
               call.RowsOfQkv(all.dqkv, work.sequence, k),
               call.RowsOfQkv(all.dqkv, work.sequence, v));
  });
}

}  // namespace

bool CudaOpsImpl::TiledKeyGrad(const AttentionCall<BF16>& call, const Gradients& all) {
  using Large = Tile<64, false, false>;  // one for all: only sizes that all have are used
  const bool small = LongestDecides((call.length + Large::kKeys - 1) / Large::kKeys,
                                    call.sequences * call.kv_heads(), FillingBlocks(Large::kPerSm));
  return WithTiles<Tile>(call, small, [&](auto tile) {
    using T = typename decltype(tile)::type;
    const int tiles = (call.length + T::kKeys - 1) / T::kKeys;
    const Deal deal{tiles * call.sequences * call.kv_heads(), options_.sm_count};
    Walk("attention_grad.keys", deal.items, {T::kThreads, T::kPerSm, T::kSharedBytes}, Backward<T>,
         call, deal, all);
  });
}

}  // namespace stretto::cuda
