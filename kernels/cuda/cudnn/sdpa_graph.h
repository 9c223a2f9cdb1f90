// SPDX-License-Identifier: Apache-2.0
#pragma once
// Causal attention of one sequence as graphs of cuDNN operations, in the form that its fused
// kernels are found by (https://docs.nvidia.com/deeplearning/cudnn/latest, "Attention").
//
//   forward:   softmax(scale Q K^T, masked) V, and per query the log of the softmax denominator
//   backward:  P from Q, K and that log; dV = P^T dO; dS = scale P (dO V^T - rowsum(dO O));
//              dK = dS^T Q; dQ = dS K
//
// Backward is the deterministic form: dQ is one product over stored dS (length^2 numbers per head
// of the workspace) instead of sums by atomics.

#include <cstdint>

#include "kernels/cuda/cudnn/descriptors.h"

namespace stretto::cuda {

// Key/value heads are what cuDNN calls the batch, the queries of one its heads: so the interleaved
// rows of qkv (kernels/ops.h) have one stride per dimension. A launch may take some of a row's
// heads.
struct SdpaShape {
  int64_t length = 0;
  int64_t kv_heads = 0, group = 0;  // of the launch; group: queries per key/value head
  int64_t head_dim = 0;
  int64_t row_kv_heads = 0;  // of a row in memory

  int64_t qkv_columns() const { return row_kv_heads * kv_columns(); }
  int64_t context_columns() const { return row_heads() * head_dim; }
  int64_t row_heads() const { return row_kv_heads * group; }
  // Of one key/value head with its queries.
  int64_t kv_columns() const { return (group + 2) * head_dim; }
};

// Ids of the tensors that a launch gets addresses of. All lie as kernels/ops.h says, but kRowSums:
// f32 [kv_heads][group][length] of the workspace. The last three are f32 scalars on the host.
enum SdpaTensor : int {
  kQuery = 1,
  kKey,
  kValue,
  kContext,
  kLse,
  kDContext,
  kDQuery,
  kDKey,
  kDValue,
  kRowSums,
  kScale,
  kMinusInfinity,
  kOne,
  kSdpaTensors,
};

// The finalized operation graph; null where `descriptors` has a status. handle: may be null for
// plans of devices that are not here.
Descriptor ForwardGraph(const SdpaShape& shape, cudnnHandle_t handle, Descriptors* descriptors);
Descriptor BackwardGraph(const SdpaShape& shape, cudnnHandle_t handle, Descriptors* descriptors);

}  // namespace stretto::cuda
