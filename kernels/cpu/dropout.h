// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random draws of dropout, keyed as defined in ops.h.

#include <cstdint>

#include "kernels/cpu/vector_math.h"
#include "kernels/ops.h"

namespace stretto::cpu::STRETTO_CPU_OPS {

typedef uint64_t Words __attribute__((vector_size(4 * kLanes)));

// The draws of one tensor.
class Draws {
 public:
  // keys: i32[kKeyCount]. global_head: -1 unless elements are attention probabilities.
  Draws(const Dropout& dropout, const TensorView& keys, int64_t global_head = -1);

  // Writes the factors of row `row`, 0 or dropout.scale(), for columns [0, count) to a
  // FactorBuffer.
  void Factors(int64_t row, int64_t count, float* factors) const;

 private:
  void Store(Words draws, float* factors) const;

  uint32_t key_low_, key_high_, step_, site_, first_token_, threshold_;
  float scale_;
};

// Returns a buffer of the calling thread for the factors of `columns` columns.
float* FactorBuffer(int64_t columns);

}  // namespace stretto::cpu::STRETTO_CPU_OPS
