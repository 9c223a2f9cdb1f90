// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compares a schedule bitwise with its serial oracle (DESIGN section 5). A time of a schedule means
// nothing before this check has passed.

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/trainer/rank_engine.h"

namespace stretto::trainer {

// The number of steps of the schedule and of its oracle that are compared.
inline constexpr int kParitySteps = 2;

// The result of a step.
struct StepResult {
  double loss = 0;
  float gradient_norm = 0;
  uint32_t gradients = 0;  // Crc32c of every gradient, in the order of the parameters
  bool operator==(const StepResult&) const = default;
};

// Returns the result of the engine's last step. Errors: those of Executor::Read.
absl::StatusOr<StepResult> ResultOf(RankEngine& engine);

// Whether all steps are bitwise equal on this rank and are meaningful: finite, and with gradients
// that are not all zero.
bool SameBits(absl::Span<const StepResult> oracle, absl::Span<const StepResult> schedule);

}  // namespace stretto::trainer
