// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranks compute what they all hold (norms, row biases, positions) each for itself, so they must
// round alike, or these parameters drift apart without a word.

#include <string>

#include "absl/status/status.h"
#include "worker/comm/communicator.h"

namespace stretto::trainer {

// Every rank calls this together with what identifies its kernels. Errors, the same on all ranks:
// Unimplemented, naming all that was found and on which ranks; those of the group.
absl::Status CheckSameKernels(const std::string& mine, Communicator& control);

}  // namespace stretto::trainer
