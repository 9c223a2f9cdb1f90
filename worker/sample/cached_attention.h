// SPDX-License-Identifier: Apache-2.0
#pragma once
// Causal attention of new positions to all earlier ones, whose keys and values are cached.

#include <cstdint>
#include <vector>

#include "kernels/ops.h"
#include "worker/sample/team.h"

namespace stretto {

// The cache of one layer: f32 [positions][kv_heads][head_dim] each. Grows with the prefix.
struct KeyValueCache {
  std::vector<float> keys, values;
};

// qkv[rows, shape.qkv_columns()] (kernels/ops.h), already rotated, has positions [first, first +
// rows). Stores their keys and values in the cache, replacing those of these and later positions,
// then computes context[rows, shape.context_columns()] = softmax(shape.scale() * q k^T) v, each row
// over the positions up to its own. shape.sequence_length is not used.
void AttendCached(const AttentionShape& shape, int64_t first, int64_t rows, const float* qkv,
                  KeyValueCache* cache, float* context, Team* team);

}  // namespace stretto
