// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/early_stop.h"

#include <cmath>
#include <optional>

namespace stretto::trainer {

void CountLoss(double loss, const EarlyStopRule& rule, HeldOutState* state) {
  // better_loss, not best_loss, is the reference: small gains must add up to min_improvement.
  const bool better = loss < state->better_loss - rule.min_improvement;
  if (better) state->better_loss = loss;
  state->without_better = better ? 0 : state->without_better + 1;
  if (loss < state->best_loss) state->best_loss = loss;
  state->loss = std::isnan(loss) ? std::nullopt : std::optional(loss);
}

bool StoppedImproving(const HeldOutState& state, const EarlyStopRule& rule) {
  return rule.patience > 0 && state.without_better >= rule.patience;
}

}  // namespace stretto::trainer
