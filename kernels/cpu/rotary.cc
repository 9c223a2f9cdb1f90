// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include "kernels/cpu/cpu_ops_impl.h"
#include "kernels/cpu/vector_math.h"

namespace stretto::cpu::STRETTO_CPU_OPS {

namespace {

// Cosines and sines of every position, [sequence_length][2][head_dim/2], computed in f64. The
// thread keeps the table until it needs another shape.
class TurnTable {
 public:
  const float* Of(const AttentionShape& shape, const RotarySpeed& speed) {
    const int64_t half = shape.head_dim / 2;
    if (length_ == shape.sequence_length && half_ == half && speed_ == speed) return turns_.data();
    length_ = shape.sequence_length, half_ = half, speed_ = speed;
    turns_.resize(length_ * 2 * half_);
    for (int64_t i = 0; i < half_; ++i) {
      const double frequency = RotaryFrequency(speed_, i, half_);
      for (int64_t position = 0; position < length_; ++position) {
        const double angle = static_cast<double>(position) * frequency;
        float* turn = turns_.data() + position * 2 * half_ + i;
        turn[0] = static_cast<float>(std::cos(angle));
        turn[half_] = static_cast<float>(std::sin(angle));
      }
    }
    return turns_.data();
  }

 private:
  int64_t length_ = 0, half_ = 0;
  RotarySpeed speed_;
  std::vector<float> turns_;
};

// Rotates columns i and i + half of one head; sign is -1 for the inverse.
template <class T>
void TurnHead(const float* cosines, const float* sines, float sign, int64_t half, T* x) {
#pragma omp simd
  for (int64_t i = 0; i < half; ++i) {
    const float a = ToFloat(x[i]), b = ToFloat(x[i + half]), sine = sign * sines[i];
    x[i] = FromFloat<T>(a * cosines[i] - b * sine);
    x[i + half] = FromFloat<T>(b * cosines[i] + a * sine);
  }
}

}  // namespace

void CpuOps::Rotary(AttentionShape shape, const RotarySpeed& speed, bool inverse, TensorView qkv) {
  STRETTO_CHECK(qkv.columns() == shape.qkv_columns() && shape.head_dim % 2 == 0);
  STRETTO_CHECK(shape.heads % shape.kv_heads == 0);
  thread_local TurnTable table;
  const float* turns = table.Of(shape, speed);
  const int64_t half = shape.head_dim / 2, group = shape.heads / shape.kv_heads;
  const float sign = inverse ? -1.0f : 1.0f;
  WithType(qkv.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t row = 0; row < qkv.rows(); ++row) {
      const float* turn = turns + row % shape.sequence_length * shape.head_dim;
      T* head = qkv.as<T>() + row * qkv.columns();
      for (int64_t kv = 0; kv < shape.kv_heads; ++kv) {
        // Rotate the queries of the group and its key; the value is unchanged.
        for (int64_t i = 0; i <= group; ++i, head += shape.head_dim) {
          TurnHead(turn, turn + half, sign, half, head);
        }
        head += shape.head_dim;
      }
    }
  });
}

}  // namespace stretto::cpu::STRETTO_CPU_OPS
