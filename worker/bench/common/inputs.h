// SPDX-License-Identifier: Apache-2.0
#pragma once
// The inputs that a host writes before a measured step: random tokens, and the optimizer's scalars.

#include "worker/trainer/rank_engine.h"

namespace stretto::bench {

inline constexpr uint64_t kSeed = 1;  // of the weights

// Fills all micro-batches of step number `step`; the first step is 1.
void FillInputs(const EngineSpec& spec, int step, trainer::RankEngine& engine);

}  // namespace stretto::bench
