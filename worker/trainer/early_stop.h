// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the held-out loss of a job went, and when it counts as falling no more.

#include <cstdint>

#include "worker/checkpoint/training_state.h"

namespace stretto::trainer {

// A loss is better if it is below the last better one by more than min_improvement. So many in a
// row that are not better end the job; 0: never.
struct EarlyStopRule {
  int64_t patience = 0;
  double min_improvement = 0;
};

// Counts a loss, which may be no number: that is not better.
void Count(double loss, const EarlyStopRule& rule, HeldOutState* state);

bool FallsNoMore(const HeldOutState& state, const EarlyStopRule& rule);

}  // namespace stretto::trainer
