// SPDX-License-Identifier: Apache-2.0
#pragma once
// Costs of this machine that nobody measured: every operation takes a millisecond.

#include <vector>

#include "worker/engine/cost/profile.h"
#include "worker/engine/spec/spec.h"

namespace stretto::bench {

CostProfile MadeUpCosts(const std::vector<EngineSpec>& specs);

// The work of TwoRanksTest with `pipeline`.
EngineSpec TwoStages();

}  // namespace stretto::bench
