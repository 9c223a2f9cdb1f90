// SPDX-License-Identifier: Apache-2.0
#pragma once
// The arguments of a call of Attention or AttentionGrad on the device, common to all kernels.

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/bf16.h"
#include "kernels/cuda/philox.h"
#include "kernels/ops.h"

namespace stretto::cuda {

inline constexpr float kLog2E = 1.4426950409f;

// The rows of one head of one sequence, which are `stride` elements apart.
template <class T>
struct HeadRows {
  T* data;
  int64_t stride;
  int count;

  __device__ __forceinline__ T* Row(int row) const { return data + row * stride; }
};

// Dropout of one head's probabilities in one sequence.
struct HeadDraws {
  uint32_t key_low, key_high, step, site, first_token, threshold;

  // Bit i: whether the query keeps its probability of key 4 * block + i.
  __device__ __forceinline__ unsigned Kept(int query, int block) const {
    const uint4 words = Philox(make_uint4(static_cast<uint32_t>(block),
                                          first_token + static_cast<uint32_t>(query), site, step),
                               key_low, key_high);
    return (words.x >= threshold ? 1u : 0u) | (words.y >= threshold ? 2u : 0u) |
           (words.z >= threshold ? 4u : 0u) | (words.w >= threshold ? 8u : 0u);
  }
};

struct CallDraws {
  const uint32_t* keys;
  uint32_t threshold, site, first_token, first_head;  // threshold 0: off
  float scale;                                        // 1 where off

  __device__ __forceinline__ HeadDraws OfHead(int head, int64_t first_row) const {
    return {.key_low = keys[kSeedLow],
            .key_high = keys[kSeedHigh],
            .step = keys[kStepNumber],
            .site = site + ((first_head + static_cast<uint32_t>(head) + 1) << 16),
            .first_token = keys[kFirstToken] + first_token + static_cast<uint32_t>(first_row),
            .threshold = threshold};
  }
};

// Which queries and keys of a sequence are of one document.
struct Documents {
  const int32_t* first;  // where each token's document begins; null: all are of one document
  int length;            // of the sequence

  // Returns the first key that a query sees; 0 beyond the sequence.
  __device__ __forceinline__ int FirstKey(int query) const {
    return first == nullptr || query >= length ? 0 : first[query];
  }
  // Returns the end of the queries that see a key: the first one of a later document.
  __device__ __forceinline__ int EndOfQueries(int key) const {
    int low = first == nullptr ? length : key + 1, high = length;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (first[middle] > key) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return high;
  }
};

template <class T>
struct AttentionCall {
  const T* qkv;
  int64_t qkv_stride, context_stride, rows;
  int length, sequences, heads, group, head_dim;
  float scale;  // of scores
  CallDraws draws;
  const int32_t* documents = nullptr;  // of all rows, as in Documents

  __host__ __device__ int kv_heads() const { return heads / group; }

  // The columns of a head's query in a row of qkv, and of its group's key and value.
  __device__ __forceinline__ int64_t QueryColumn(int head) const {
    return int64_t{head / group * (group + 2) + head % group} * head_dim;
  }
  __device__ __forceinline__ int64_t KeyColumn(int kv_head) const {
    return int64_t{kv_head * (group + 2) + group} * head_dim;
  }
  __device__ __forceinline__ int64_t ValueColumn(int kv_head) const {
    return KeyColumn(kv_head) + head_dim;
  }
  // Rows of a tensor with the columns of qkv, and of one with those of context.
  template <class U>
  __device__ __forceinline__ HeadRows<U> RowsOfQkv(U* tensor, int sequence, int64_t column) const {
    return {tensor + int64_t{sequence} * length * qkv_stride + column, qkv_stride, length};
  }
  template <class U>
  __device__ __forceinline__ HeadRows<U> RowsOfContext(U* tensor, int sequence, int head) const {
    return {tensor + int64_t{sequence} * length * context_stride + int64_t{head} * head_dim,
            context_stride, length};
  }
  // The logs of a head's denominators in a sequence, one per query.
  template <class U>
  __device__ __forceinline__ U* LseOf(U* lse, int sequence, int head) const {
    return lse + (int64_t{sequence} * heads + head) * length;
  }
  __device__ __forceinline__ Documents DocumentsOf(int sequence) const {
    return {documents == nullptr ? nullptr : documents + int64_t{sequence} * length, length};
  }
  __device__ __forceinline__ HeadDraws DrawsOf(int sequence, int head) const {
    return draws.OfHead(head, int64_t{sequence} * length);
  }
};

// The statistics of a query row for the backward kernels, [heads][rows of the call] in scratch.
struct alignas(8) RowStatistics {
  float lse;    // times log2(e)
  float delta;  // dcontext * context, which the gradient of softmax subtracts
};

// The tensors of a call in addition to those of AttentionCall.
struct Gradients {
  const BF16* dcontext;
  const RowStatistics* statistics;
  BF16* dqkv;
};

__device__ __forceinline__ const RowStatistics* StatisticsOf(const AttentionCall<BF16>& call,
                                                             const RowStatistics* all, int sequence,
                                                             int head) {
  return all + head * call.rows + int64_t{sequence} * call.length;
}

}  // namespace stretto::cuda
