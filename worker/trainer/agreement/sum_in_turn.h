// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sums over the replicas of a job that do not depend on how many there are.

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

}  // namespace stretto::trainer
