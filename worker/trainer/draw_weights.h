// SPDX-License-Identifier: Apache-2.0
#pragma once
// The initial weights of a large model take minutes to draw on one core.

#include <cstdint>

#include "worker/engine/model/parameters.h"

namespace stretto::trainer {

// As many as this process may use; at least 1.
int AllCores();

// Initialise (worker/engine/model) of a whole shard, on that many threads: the same bits for every
// number of them. Returns when all is drawn.
void DrawWeights(const Parameter& parameter, int index, uint64_t seed, int threads, float* values);

}  // namespace stretto::trainer
