// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a host writes before a step that is measured: tokens drawn at random and the optimizer's
// scalars.

#include "worker/trainer/rank_engine.h"

namespace stretto::bench {

inline constexpr uint64_t kSeed = 1;  // of the weights

// All micro-batches of step number `step`, from 1.
void FillInputs(const EngineSpec& spec, int step, trainer::RankEngine& engine);

}  // namespace stretto::bench
