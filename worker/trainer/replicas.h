// SPDX-License-Identifier: Apache-2.0
#pragma once
// The last check on parameters that several ranks hold: they must be bitwise equal there. It finds
// differences of any cause (other kernels, corrupted memory, a bug).

#include "absl/status/status.h"
#include "worker/comm/communicator.h"
#include "worker/trainer/rank_engine.h"

namespace stretto::trainer {

// Compares masters and moments by their CRC-32C: of parameters that are not sharded, on all ranks;
// of shards, on the ranks that hold the same one. Every rank calls this together, between steps. It
// reads each tensor once and sends 4 bytes for it. Errors, the same on all ranks: DataLoss, naming
// the first tensor that differs and the ranks on which it does; those of the group and of
// Executor::Read.
absl::Status CheckReplicas(const EngineSpec& spec, RankEngine& engine, Communicator& control);

}  // namespace stretto::trainer
