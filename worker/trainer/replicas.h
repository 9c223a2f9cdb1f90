// SPDX-License-Identifier: Apache-2.0
#pragma once
// The last check on parameters that every rank holds whole: they must have the same bits on all of
// them, whatever made them differ (unlike kernels, memory that lost a bit, a bug).

#include "absl/status/status.h"
#include "worker/comm/communicator.h"
#include "worker/trainer/rank_engine.h"

namespace stretto::trainer {

// Compares masters and moments of all replicated parameters by their CRC-32C. Every rank calls this
// together, between steps. Reads each of them once, and sends 4 bytes for each. Errors, the same on
// all ranks: DataLoss, naming the first tensor that differs and the ranks on which it does; those
// of the group and of Executor::Read.
absl::Status CheckReplicas(RankEngine& engine, Communicator& control);

}  // namespace stretto::trainer
