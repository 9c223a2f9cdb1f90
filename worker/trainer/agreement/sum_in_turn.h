// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sums over the replicas of a job that do not depend on how many there are.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/comm/communicator.h"
#include "worker/engine/spec/spec.h"

namespace stretto::trainer {

// Work items are the shares of micro-batches (worker/engine/layout): micro-batch by micro-batch,
// each replica of the stage of the head has SharesOf consecutive ones. `mine` has the number of
// each item of this rank's replica; every rank passes as many as one of that stage, and those
// count. Returns the sum over all items, added in their order: the same bits on every rank, and for
// any number of replicas. Every rank calls this together. Errors: those of the communicator.
absl::StatusOr<double> SumInTurn(const EngineSpec& spec, Communicator& control,
                                 const std::vector<double>& mine);

// Returns the mean loss of a step over its `targets`, of which there may be none: its loss is 0
// then. `mine` are RankEngine::LossSums. Every rank calls this together where there are several
// replicas or stages, and gets the same bits. Errors: those of the communicator.
absl::StatusOr<double> MeanLossOfStep(const EngineSpec& spec, Communicator& control,
                                      const std::vector<double>& mine, int64_t targets);

}  // namespace stretto::trainer
