// SPDX-License-Identifier: Apache-2.0
#pragma once
// Drawing and rounding the initial weights of a large model takes minutes on one core, so all cores
// do it.

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/bf16.h"
#include "worker/engine/model/parameters.h"

namespace stretto::trainer {

// Returns the number of threads that this process may use; at least 1.
int AllCores();

// Initialises a whole shard (Initialise of worker/engine/model) on `threads` threads. The result
// does not depend on their number. Returns when all elements are drawn.
void DrawWeights(const Parameter& parameter, uint64_t seed, int threads, float* values);

// Rounds `values` with ToBF16 on `threads` threads. Returns when all elements are rounded.
void RoundWeights(absl::Span<const float> values, int threads, BF16* rounded);

}  // namespace stretto::trainer
