// SPDX-License-Identifier: Apache-2.0
#pragma once
// A shaped link lets a burst pass for free. A measurement must find none left.

#include "absl/status/status.h"
#include "worker/comm/communicator.h"

namespace stretto::bench {

// Empties the token bucket of the link and waits for all ranks, which call this together. Errors:
// those of the communicator.
absl::Status DrainLink(Communicator& ranks);

}  // namespace stretto::bench
