// SPDX-License-Identifier: Apache-2.0
#pragma once
// The last check on parameters that every rank holds completely: they must be bitwise equal on all
// ranks. It finds differences of any cause (other kernels, corrupted memory, a bug).

#include "absl/status/status.h"
#include "worker/comm/communicator.h"
#include "worker/trainer/rank_engine.h"

namespace stretto::trainer {

// Compares masters and moments of all replicated parameters by their CRC-32C. Every rank calls this
// together, between steps. It reads each tensor once and sends 4 bytes for it. Errors, the same on
// all ranks: DataLoss, naming the first tensor that differs and the ranks on which it does; those
// of the group and of Executor::Read.
absl::Status CheckReplicas(RankEngine& engine, Communicator& control);

}  // namespace stretto::trainer
