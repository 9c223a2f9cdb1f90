// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether a schedule computes what its serial oracle computes, to the bit (DESIGN section 5). No
// time of a schedule means anything before that.

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/trainer/rank_engine.h"

namespace stretto::trainer {

// Steps of the schedule and of its oracle that are compared.
inline constexpr int kParitySteps = 2;

// What a step computed.
struct StepResult {
  double loss = 0;
  float gradient_norm = 0;
  uint32_t gradients = 0;  // Crc32c of every gradient, in the order of the parameters
  bool operator==(const StepResult&) const = default;
};

// Of the engine's last step. Errors: those of Executor::Read.
absl::StatusOr<StepResult> ResultOf(RankEngine& engine);

// Whether all steps have the same bits on this rank, finite ones, of a model whose gradients are
// not all zero.
bool SameBits(absl::Span<const StepResult> oracle, absl::Span<const StepResult> schedule);

}  // namespace stretto::trainer
