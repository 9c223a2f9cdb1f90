// SPDX-License-Identifier: Apache-2.0
#pragma once
// A shaped link counts whole frames, and lets a burst pass for free. A measurement must find none
// left.

#include "absl/status/status.h"
#include "worker/comm/communicator.h"

namespace stretto::bench {

// Payload share of a full frame: 1448 of 1514 bytes, with IPv4 and TCP timestamps.
inline constexpr double kPayloadShare = 0.956;

// The largest bucket that a drain empties (that of tests/bench/nodes.sh is smaller).
inline constexpr int64_t kMostBucketBytes = 1 << 20;

// Empties the token bucket of the link and waits for all ranks, which call this together. Errors:
// those of the communicator.
absl::Status DrainLink(Communicator& ranks);

}  // namespace stretto::bench
