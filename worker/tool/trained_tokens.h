// SPDX-License-Identifier: Apache-2.0
#pragma once
// The number of tokens that a checkpoint was trained on.

#include <cstdint>
#include <optional>

#include "worker/checkpoint/training_state.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

// Returns none if the product exceeds 64 bits, which is possible in an edited manifest.
inline std::optional<int64_t> TokensOf(const TrainingState& state, const ModelSpec& model) {
  int64_t tokens = 0;
  if (__builtin_mul_overflow(state.consumed_samples, model.sequence_length, &tokens)) {
    return std::nullopt;
  }
  return tokens;
}

}  // namespace stretto
