// SPDX-License-Identifier: Apache-2.0
#include "worker/sample/rotary_turns.h"

#include <cmath>

namespace stretto {
namespace {

void TurnHead(const float* turn, int64_t half, float* head) {
  for (int64_t i = 0; i < half; ++i) {
    const float a = head[i], b = head[i + half], cosine = turn[i], sine = turn[half + i];
    head[i] = a * cosine - b * sine;
    head[i + half] = b * cosine + a * sine;
  }
}

}  // namespace

std::vector<float> TurnTable(const RotarySpeed& speed, int64_t head_dim, int64_t first,
                             int64_t count) {
  const int64_t half = head_dim / 2;
  std::vector<float> table(count * head_dim);
  for (int64_t i = 0; i < half; ++i) {
    const double frequency = RotaryFrequency(speed, i, half);
    for (int64_t row = 0; row < count; ++row) {
      const double angle = static_cast<double>(first + row) * frequency;
      float* const turn = table.data() + row * head_dim + i;
      turn[0] = static_cast<float>(std::cos(angle));
      turn[half] = static_cast<float>(std::sin(angle));
    }
  }
  return table;
}

void TurnRows(const AttentionShape& shape, const std::vector<float>& turns, int64_t rows,
              float* qkv) {
  const int64_t d = shape.head_dim, group = shape.heads / shape.kv_heads;
  for (int64_t row = 0; row < rows; ++row) {
    const float* const turn = turns.data() + row * d;
    for (int64_t kv = 0; kv < shape.kv_heads; ++kv) {
      // Rotates the queries of the group and its key, but not the value.
      for (int64_t i = 0; i <= group; ++i) {
        TurnHead(turn, d / 2, qkv + (kv * (group + 2) + i) * d);
      }
    }
    qkv += shape.qkv_columns();
  }
}

}  // namespace stretto
