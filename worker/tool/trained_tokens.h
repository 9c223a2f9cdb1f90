// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much a checkpoint has seen.

#include <cstdint>
#include <optional>

#include "worker/checkpoint/training_state.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

// None where the product is beyond 64 bits, as it may be in a manifest that someone has edited.
inline std::optional<int64_t> TokensOf(const TrainingState& state, const ModelSpec& model) {
  int64_t tokens = 0;
  if (__builtin_mul_overflow(state.consumed_samples, model.sequence_length, &tokens)) {
    return std::nullopt;
  }
  return tokens;
}

}  // namespace stretto
