// SPDX-License-Identifier: Apache-2.0
#pragma once
// The two-stream model in which the published orders of a Domino layer were compared: 40 layers of
// width 5120 over 8 ranks, sequences of 1024, one micro-batch, embedding and head without cost.
// Costs of a layer in units of tokens * width^2 / (ranks * rate) are QKV 6, attention 0.6,
// projection 2, FC1 8, activation 0.7, FC2 8, a norm 1.6, bias-dropout-add 2.6. Backward costs each
// product once for activations and once for weights, attention 2.5 times, activation and norm 1.5
// times, and dropout once. The all-reduces take a given share of the synchronous step; there is no
// contention.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/bench/options/reference_shares.h"
#include "worker/engine/cost/model.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

struct ReferenceRow {
  const char* label;
  const char* schedule;
  int slices;
  // At each of kReferenceShares: speed-up over megatron_sync, and the exposed share of
  // communication.
  double speed_ups[2];
  double exposed[2];
};

// The orders with their published results.
const std::vector<ReferenceRow>& ReferenceRows();

EngineSpec ReferenceSpec(const std::string& schedule, int slices);

// The costs above for a micro-batch in equal slices; one unit takes a millisecond.
CostModel ReferenceCosts(int slices, double communication_share);

struct ReferenceResult {
  double speed_up = 0;
  double exposed = 0;
};

// Simulates our version. Errors: those of BuildPlan.
absl::StatusOr<ReferenceResult> SimulateReference(const ReferenceRow& row,
                                                  double communication_share);

}  // namespace stretto
