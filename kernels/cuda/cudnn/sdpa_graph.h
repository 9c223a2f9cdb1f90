// SPDX-License-Identifier: Apache-2.0
#pragma once
// Causal attention of one sequence as graphs of cuDNN operations, in the form that its fused
// kernels recognise (https://docs.nvidia.com/deeplearning/cudnn/latest, "Attention").
//
//   forward:   softmax(scale Q K^T, masked) V, and per query the log of the softmax denominator
//   backward:  P from Q, K and that log; dV = P^T dO; dS = scale P (dO V^T - rowsum(dO O));
//              dK = dS^T Q; dQ = dS K
//
// Backward is the deterministic form: dQ is one product over the stored dS (length^2 numbers per
// head in the workspace) instead of sums by atomics.

#include <cstdint>

#include "kernels/cuda/cudnn/descriptors.h"

namespace stretto::cuda {

// Key/value heads are cuDNN's batch, and the queries of one are cuDNN's heads, so that the
// interleaved rows of qkv (kernels/ops.h) have one stride per dimension. A launch may compute a
// part of a row's heads.
struct SdpaShape {
  int64_t length = 0;
  int64_t kv_heads = 0, group = 0;  // of the launch; group: queries per key/value head
  int64_t head_dim = 0;
  int64_t row_kv_heads = 0;  // of a row in memory

  int64_t qkv_columns() const { return row_kv_heads * kv_columns(); }
  int64_t context_columns() const { return row_heads() * head_dim; }
  int64_t row_heads() const { return row_kv_heads * group; }
  // The columns of one key/value head with its queries.
  int64_t kv_columns() const { return (group + 2) * head_dim; }
};

// Ids of the tensors whose addresses a launch receives. All have the layout of kernels/ops.h,
// except kRowSums: f32 [kv_heads][group][length] in the workspace. The last three are f32 scalars
// on the host.
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

// Return the finalized operation graph, or null if `descriptors` has failed. `handle` may be null
// for plans of devices that this machine does not have.
Descriptor ForwardGraph(const SdpaShape& shape, cudnnHandle_t handle, Descriptors* descriptors);
Descriptor BackwardGraph(const SdpaShape& shape, cudnnHandle_t handle, Descriptors* descriptors);

}  // namespace stretto::cuda
