// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/parity.h"

#include <cmath>

#include "absl/algorithm/container.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"

namespace stretto::trainer {

absl::StatusOr<StepResult> ResultOf(RankEngine& engine) {
  StepResult result{.loss = engine.MeanLoss(), .gradient_norm = engine.clip_state()[kGradNorm]};
  for (size_t p = 0; p < engine.parameters().size(); ++p) {
    ASSIGN_OR_RETURN(const TensorView gradient, engine.Gradient(p));
    result.gradients =
        Crc32c({static_cast<const char*>(gradient.data), static_cast<size_t>(gradient.bytes())},
               result.gradients);
  }
  return result;
}

bool SameBits(absl::Span<const StepResult> oracle, absl::Span<const StepResult> schedule) {
  const auto sound = [](const StepResult& step) {
    return std::isfinite(step.loss) && std::isfinite(step.gradient_norm) && step.gradient_norm > 0;
  };
  return oracle == schedule && absl::c_all_of(oracle, sound);
}

}  // namespace stretto::trainer
