// SPDX-License-Identifier: Apache-2.0
#pragma once
// The ranks of a job that one simulated rank stands for.

#include <vector>

#include "worker/engine/exec/backend_sim/simulated_rank.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

// Returns the other ranks of the rank's stage: its replicas and the other shards of it.
std::vector<RankCopy> CopiesOf(const EngineSpec& spec, Rank rank);

}  // namespace stretto
