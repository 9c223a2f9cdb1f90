// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sums over the replicas of a job that do not depend on how many there are.

#include <vector>

#include "absl/status/statusor.h"
#include "worker/comm/communicator.h"
#include "worker/engine/spec/spec.h"

namespace stretto::trainer {

// Work items, such as micro-batches, are dealt to the replicas in turn: item i is the (i /
// dp_size)th of replica i modulo dp_size. `mine` has the number of each item of this rank's
// replica; every rank passes equally many, and those of the last stage count. Returns the sum over
// all items, added in their order: the same bits on every rank. Every rank calls this together.
// Errors: those of the communicator.
absl::StatusOr<double> SumInTurn(const EngineSpec& spec, Communicator& control,
                                 const std::vector<double>& mine);

}  // namespace stretto::trainer
