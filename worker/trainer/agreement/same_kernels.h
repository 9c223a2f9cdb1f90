// SPDX-License-Identifier: Apache-2.0
#pragma once
// Each rank computes replicated values (norms, row biases, positions) for itself, so all ranks must
// round alike; otherwise these parameters drift apart silently.

#include <string>

#include "absl/status/status.h"
#include "worker/comm/communicator.h"

namespace stretto::trainer {

// Compares the identity of the kernels, `mine`, over all ranks, which call this together. Errors,
// the same on all ranks: Unimplemented, naming every identity found and its ranks; those of the
// group.
absl::Status CheckSameKernels(const std::string& mine, Communicator& control);

}  // namespace stretto::trainer
