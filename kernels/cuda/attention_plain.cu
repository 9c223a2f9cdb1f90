// SPDX-License-Identifier: Apache-2.0

// Attention in f32 arithmetic for any type and head dimension: a warp per row of the result, which
// visits 32 rows of the other side at a time. The statistics of rows for every gradient kernel are
// computed here too.
#include "kernels/cuda/attention_call.h"
#include "kernels/cuda/cuda_ops_impl.h"
#include "kernels/cuda/device.h"

namespace stretto::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kColumns = 4;  // of a lane at a time
constexpr Spread kSpread{.threads = kWarps * kWarpSize,
                         .per_sm = 8,
                         .shared_bytes = 2 * kWarps * kWarpSize * sizeof(float)};

__device__ __forceinline__ int Lane() { return static_cast<int>(threadIdx.x) % kWarpSize; }
__device__ __forceinline__ int64_t FirstItem() {
  return (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarpSize;
}
__device__ __forceinline__ int64_t ItemStep() { return int64_t{gridDim.x} * kWarps; }
// Returns 32 weights that the warp shares; there are two kinds.
__device__ __forceinline__ float* Weights(int kind) {
  return SharedMemory<float>() +
         (kind * kWarps + static_cast<int>(threadIdx.x) / kWarpSize) * kWarpSize;
}

__device__ int UpToAWarp(int count) { return count < kWarpSize ? count : kWarpSize; }

template <class T>
__device__ float Dot(const T* a, const T* b, int count) {
  float sum = 0;
  for (int i = 0; i < count; ++i) sum += ToFloat(a[i]) * ToFloat(b[i]);
  return sum;
}

// sums[c] += weights[i] * row(i)[column + 32 c + lane], i ascending.
template <class T>
__device__ void AddRows(const float* weights, const HeadRows<const T>& rows, int first, int count,
                        int column, int columns, float (&sums)[kColumns]) {
  for (int i = 0; i < count; ++i) {
    const T* const row = rows.Row(first + i);
    for (int c = 0; c < kColumns; ++c) {
      const int at = column + c * kWarpSize + Lane();
      if (at < columns) sums[c] += weights[i] * ToFloat(row[at]);
    }
  }
}

template <class T>
__device__ void StoreColumns(const float (&sums)[kColumns], float factor, int column, int columns,
                             T* row) {
  for (int c = 0; c < kColumns; ++c) {
    const int at = column + c * kWarpSize + Lane();
    if (at < columns) row[at] = Round<T>(sums[c] * factor);
  }
}

// Returns the factor that dropout applies to a probability.
__device__ float Factor(const CallDraws& call, const HeadDraws& draws, int query, int key) {
  if (call.threshold == 0) return 1;
  return draws.Kept(query, key / 4) >> (key % 4) & 1 ? call.scale : 0.0f;
}

template <class T>
__global__ void Forward(AttentionCall<T> call, T* context, float* lse) {
  const int d = call.head_dim;
  float* const weights = Weights(0);
  for (int64_t item = FirstItem(); item < call.rows * call.heads; item += ItemStep()) {
    const int head = static_cast<int>(item % call.heads);
    const int sequence = static_cast<int>(item / call.heads / call.length);
    const int query = static_cast<int>(item / call.heads % call.length);
    const HeadDraws draws = call.draws.threshold > 0 ? call.DrawsOf(sequence, head) : HeadDraws{};
    const T* const q = call.RowsOfQkv(call.qkv, sequence, call.QueryColumn(head)).Row(query);
    const auto k = call.RowsOfQkv(call.qkv, sequence, call.KeyColumn(head / call.group));
    const auto v = call.RowsOfQkv(call.qkv, sequence, call.ValueColumn(head / call.group));

    const int begin = call.DocumentsOf(sequence).FirstKey(query);
    float max = -INFINITY, sum = 0;
    for (int key = begin + Lane(); key <= query; key += kWarpSize) {
      const float score = Dot(q, k.Row(key), d) * call.scale, top = fmaxf(max, score);
      sum = sum * expf(max - top) + expf(score - top);
      max = top;
    }
    const float top = WarpMax(max);
    sum = WarpSum(sum * expf(max - top));
    if (Lane() == 0) call.LseOf(lse, sequence, head)[query] = top + logf(sum);

    for (int column = 0; column < d; column += kColumns * kWarpSize) {
      float sums[kColumns] = {};
      for (int first = begin; first <= query; first += kWarpSize) {
        const int key = first + Lane();
        __syncwarp();
        weights[Lane()] = key <= query ? expf(Dot(q, k.Row(key), d) * call.scale - top) *
                                             Factor(call.draws, draws, query, key)
                                       : 0.0f;
        __syncwarp();
        AddRows(weights, v, first, UpToAWarp(query - first + 1), column, d, sums);
      }
      StoreColumns(sums, 1.0f / sum, column, d,
                   call.RowsOfContext(context, sequence, head).Row(query));
    }
  }
}

template <class T>
__global__ void Statistics(AttentionCall<T> call, const T* dcontext, const T* context,
                           const float* lse, RowStatistics* statistics) {
  // Eight lanes per row and head.
  const int64_t items = call.rows * call.heads, step = int64_t{gridDim.x} * blockDim.x / 8;
  const int64_t own = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 8;
  const int lane = Lane() % 8;
  for (int64_t first = own - Lane() / 8; first < items; first += step) {
    const int64_t item = first + Lane() / 8, at = item * call.head_dim;
    float delta = 0;
    if (item < items) {
      const int packs = call.head_dim % kPack<T> == 0 ? call.head_dim / kPack<T> : 0;
      for (int p = lane; p < packs; p += 8) {
        const Pack<T> a = LoadPack(dcontext + at + p * kPack<T>);
        const Pack<T> b = LoadPack(context + at + p * kPack<T>);
        for (int i = 0; i < kPack<T>; ++i) delta += ToFloat(a.at[i]) * ToFloat(b.at[i]);
      }
      for (int i = packs * kPack<T> + lane; i < call.head_dim; i += 8)
        delta += ToFloat(dcontext[at + i]) * ToFloat(context[at + i]);
    }
    for (int mask = 4; mask > 0; mask /= 2) delta += __shfl_xor_sync(kAllLanes, delta, mask);
    if (lane == 0 && item < items) {
      const int head = static_cast<int>(item % call.heads);
      const int64_t row = item / call.heads;
      const int sequence = static_cast<int>(row / call.length);
      const float log = call.LseOf(lse, sequence, head)[row % call.length];
      statistics[head * call.rows + row] = {log * kLog2E, delta};
    }
  }
}

// The relation of a query and a key in backward.
template <class T>
struct Pairs {
  const AttentionCall<T>& call;
  HeadRows<const T> q, k, v, dcontext;
  const RowStatistics* statistics;
  HeadDraws draws;

  __device__ Pairs(const AttentionCall<T>& call, const T* dcontexts, const RowStatistics* all,
                   int sequence, int head)
      : call(call),
        q(call.RowsOfQkv(call.qkv, sequence, call.QueryColumn(head))),
        k(call.RowsOfQkv(call.qkv, sequence, call.KeyColumn(head / call.group))),
        v(call.RowsOfQkv(call.qkv, sequence, call.ValueColumn(head / call.group))),
        dcontext(call.RowsOfContext(dcontexts, sequence, head)),
        statistics(all + head * call.rows + int64_t{sequence} * call.length),
        draws(call.draws.threshold > 0 ? call.DrawsOf(sequence, head) : HeadDraws{}) {}

  // Computes the probability after dropout, and the gradient of the score before scaling.
  __device__ void Weigh(int query, int key, float* p, float* ds) const {
    const int d = call.head_dim;
    const float score = Dot(q.Row(query), k.Row(key), d) * call.scale;
    const float probability = exp2f(score * kLog2E - statistics[query].lse);
    const float factor = Factor(call.draws, draws, query, key);
    *p = probability * factor;
    *ds =
        probability * (Dot(dcontext.Row(query), v.Row(key), d) * factor - statistics[query].delta);
  }
};

template <class T>
__global__ void QueryGradient(AttentionCall<T> call, const T* dcontext,
                              const RowStatistics* statistics, T* dqkv) {
  const int d = call.head_dim;
  float* const weights = Weights(0);
  for (int64_t item = FirstItem(); item < call.rows * call.heads; item += ItemStep()) {
    const int head = static_cast<int>(item % call.heads);
    const int sequence = static_cast<int>(item / call.heads / call.length);
    const int query = static_cast<int>(item / call.heads % call.length);
    const Pairs<T> pairs(call, dcontext, statistics, sequence, head);
    const int begin = call.DocumentsOf(sequence).FirstKey(query);
    for (int column = 0; column < d; column += kColumns * kWarpSize) {
      float sums[kColumns] = {};
      for (int first = begin; first <= query; first += kWarpSize) {
        float p = 0, ds = 0;
        if (first + Lane() <= query) pairs.Weigh(query, first + Lane(), &p, &ds);
        __syncwarp();
        weights[Lane()] = ds;
        __syncwarp();
        AddRows(weights, pairs.k, first, UpToAWarp(query - first + 1), column, d, sums);
      }
      StoreColumns(sums, call.scale, column, d,
                   call.RowsOfQkv(dqkv, sequence, call.QueryColumn(head)).Row(query));
    }
  }
}

template <class T>
__global__ void KeyGradient(AttentionCall<T> call, const T* dcontext,
                            const RowStatistics* statistics, T* dqkv) {
  const int d = call.head_dim, kv_heads = call.heads / call.group;
  float *const ps = Weights(0), *const ds = Weights(1);
  for (int64_t item = FirstItem(); item < call.rows * kv_heads; item += ItemStep()) {
    const int kv_head = static_cast<int>(item % kv_heads);
    const int sequence = static_cast<int>(item / kv_heads / call.length);
    const int key = static_cast<int>(item / kv_heads % call.length);
    const int end = call.DocumentsOf(sequence).EndOfQueries(key);
    for (int column = 0; column < d; column += kColumns * kWarpSize) {
      float dk[kColumns] = {}, dv[kColumns] = {};
      for (int i = 0; i < call.group; ++i) {
        const Pairs<T> pairs(call, dcontext, statistics, sequence, kv_head * call.group + i);
        for (int first = key; first < end; first += kWarpSize) {
          const int count = UpToAWarp(end - first);
          float p = 0, of_score = 0;
          if (Lane() < count) pairs.Weigh(first + Lane(), key, &p, &of_score);
          __syncwarp();
          ps[Lane()] = p;
          ds[Lane()] = of_score;
          __syncwarp();
          AddRows(ps, pairs.dcontext, first, count, column, d, dv);
          AddRows(ds, pairs.q, first, count, column, d, dk);
        }
      }
      StoreColumns(dk, call.scale, column, d,
                   call.RowsOfQkv(dqkv, sequence, call.KeyColumn(kv_head)).Row(key));
      StoreColumns(dv, 1.0f, column, d,
                   call.RowsOfQkv(dqkv, sequence, call.ValueColumn(kv_head)).Row(key));
    }
  }
}

int64_t Blocks(int64_t items) { return (items + kWarps - 1) / kWarps; }

}  // namespace

template <class T>
void CudaOpsImpl::PlainAttention(const AttentionCall<T>& call, T* context, float* lse) {
  Walk("attention.plain", Blocks(call.rows * call.heads), kSpread, Forward<T>, call, context, lse);
}

template <class T>
void CudaOpsImpl::AttentionStatistics(const AttentionCall<T>& call, const T* dcontext,
                                      const T* context, const float* lse,
                                      RowStatistics* statistics) {
  Walk("attention_grad.statistics", (call.rows * call.heads + 31) / 32, {}, Statistics<T>, call,
       dcontext, context, lse, statistics);
}

template <class T>
void CudaOpsImpl::PlainAttentionGrad(const AttentionCall<T>& call, const T* dcontext,
                                     const RowStatistics* statistics, T* dqkv) {
  Walk("attention_grad.plain_queries", Blocks(call.rows * call.heads), kSpread, QueryGradient<T>,
       call, dcontext, statistics, dqkv);
  Walk("attention_grad.plain_keys", Blocks(call.rows * call.kv_heads()), kSpread, KeyGradient<T>,
       call, dcontext, statistics, dqkv);
}

#define STRETTO_PLAIN_ATTENTION(T)                                                            \
  template void CudaOpsImpl::PlainAttention(const AttentionCall<T>&, T*, float*);             \
  template void CudaOpsImpl::AttentionStatistics(const AttentionCall<T>&, const T*, const T*, \
                                                 const float*, RowStatistics*);               \
  template void CudaOpsImpl::PlainAttentionGrad(const AttentionCall<T>&, const T*,            \
                                                const RowStatistics*, T*)
STRETTO_PLAIN_ATTENTION(float);
STRETTO_PLAIN_ATTENTION(BF16);

}  // namespace stretto::cuda
