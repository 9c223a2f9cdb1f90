// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/session/reconnect.h"

#include <algorithm>

#include "proto/base/random.h"

namespace stretto::daemon {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(200);
constexpr absl::Duration kLongestPause = absl::Seconds(5);
// A standby takes over within seconds, and nobody knows when.
constexpr absl::Duration kLongestPauseOfSeveral = absl::Seconds(1);

bool IsRefusal(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status) ||
         absl::IsAlreadyExists(status);
}

bool IsDenial(const absl::Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsUnauthenticated(status);
}

}  // namespace

absl::Duration ReconnectPause(uint64_t seed, int attempt) {
  absl::Duration pause = kFirstPause;
  for (int i = 0; i < attempt && pause < kLongestPause; ++i) pause *= 2;
  const uint32_t draw = Philox(seed, static_cast<uint64_t>(attempt), 0)[0];
  return std::min(pause, kLongestPause) * (0.8 + 0.4 * ToUniform(draw));
}

Reconnect::Next Reconnect::Ended(const absl::Status& status, bool registered) {
  if (registered) {
    ever_registered_ = true;
    failed_ = 0;
    attempt_ = 0;
  }
  ++failed_;
  Next next;
  next.refused = !registered && (IsRefusal(status) || (!ever_registered_ && IsDenial(status)));
  if (next.refused) return next;
  next.tell = attempt_ == 0 || status.code() != told_;
  told_ = status.code();
  next.renew = IsDenial(status);
  if (failed_ % addresses_ != 0) return next;  // each address once
  next.pause = ReconnectPause(seed_, attempt_++);
  if (addresses_ > 1) next.pause = std::min(next.pause, kLongestPauseOfSeveral);
  return next;
}

}  // namespace stretto::daemon
