// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rotary positions (Su et al. 2021) for a part of a sequence; Ops::Rotary is for whole sequences.

#include <cstdint>
#include <vector>

#include "kernels/ops.h"
#include "kernels/rotary.h"

namespace stretto {

// Returns cosines and sines of positions [first, first + count): [count][2][head_dim / 2].
std::vector<float> TurnTable(const RotarySpeed& speed, int64_t head_dim, int64_t first,
                             int64_t count);

// Rotates queries and keys of qkv[rows, shape.qkv_columns()] in place, row r by row r of `turns`.
void TurnRows(const AttentionShape& shape, const std::vector<float>& turns, int64_t rows,
              float* qkv);

}  // namespace stretto
