// SPDX-License-Identifier: Apache-2.0
#pragma once
// Positions of ranks that do not move.

#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/hang.h"

namespace stretto::coordinator::testing {

inline constexpr absl::Duration kLong = absl::Seconds(21);

// A rank that is idle in step 7 and has not moved for 21 s; its process is alive.
inline RankPosition Still(std::vector<ChannelPosition> channels = {}) {
  return {.still = kLong,
          .step = 7,
          .phase = "forward",
          .operation = "17 compute gemm",
          .channels = std::move(channels)};
}
inline ChannelPosition Done(const std::string& group, int64_t begun) {
  return {.group = group, .begun = begun};
}
inline ChannelPosition Receives(const std::string& group, int64_t begun, int32_t peer) {
  return {.group = group, .begun = begun, .waiting = true, .peer = peer, .receives = true};
}
inline ChannelPosition Sends(const std::string& group, int64_t begun, int32_t peer) {
  return {.group = group, .begun = begun, .waiting = true, .peer = peer};
}
// In a collective of a device, which names no peer.
inline ChannelPosition In(const std::string& group, int64_t begun) {
  return {.group = group, .begun = begun, .waiting = true};
}

inline RankPosition With(RankPosition position, Activity activity) {
  position.activity = activity;
  return position;
}
inline RankPosition Frozen(RankPosition position, absl::Duration duration = kLong) {
  position.frozen = duration;
  return position;
}
inline RankPosition For(RankPosition position, absl::Duration still) {
  position.still = still;
  return position;
}
inline RankPosition InStep(RankPosition position, int64_t step) {
  position.step = step;
  return position;
}

}  // namespace stretto::coordinator::testing
