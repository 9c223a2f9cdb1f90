// SPDX-License-Identifier: Apache-2.0
#pragma once
// The history of a job's held-out loss, and whether the loss has stopped improving.

#include <cstdint>

#include "worker/checkpoint/training_state.h"

namespace stretto::trainer {

// A loss is better if it is below the last better loss by more than min_improvement. The job ends
// after `patience` losses in a row that are not better; 0: never.
struct EarlyStopRule {
  int64_t patience = 0;
  double min_improvement = 0;
};

// Adds a loss to the history. A loss that is not a number is not better.
void CountLoss(double loss, const EarlyStopRule& rule, HeldOutState* state);

// Whether the last rule.patience losses were not better.
bool StoppedImproving(const HeldOutState& state, const EarlyStopRule& rule);

}  // namespace stretto::trainer
