// SPDX-License-Identifier: Apache-2.0
#pragma once
// Causal attention of new positions to all that came before, whose keys and values are kept.

#include <cstdint>
#include <vector>

#include "kernels/ops.h"
#include "worker/sample/team.h"

namespace stretto {

// Of one layer: f32 [positions][kv_heads][head_dim] each. Grows with the prefix.
struct KeyValueCache {
  std::vector<float> keys, values;
};

// qkv[rows, shape.qkv_columns()] (kernels/ops.h), turned already, is of positions [first, first +
// rows). Keeps its keys and values, in place of what the cache has of these positions and later
// ones, then context[rows, shape.context_columns()] = softmax(q k^T / sqrt(head_dim)) v over the
// positions up to each row's own. shape.sequence_length is not read.
void AttendCached(const AttentionShape& shape, int64_t first, int64_t rows, const float* qkv,
                  KeyValueCache* cache, float* context, Team* team);

}  // namespace stretto
