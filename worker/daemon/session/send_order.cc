// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/session/send_order.h"

namespace stretto::daemon {
namespace {

constexpr absl::Duration kRegisterTimeout = absl::Seconds(10);
constexpr absl::Duration kDefaultHeartbeat = absl::Seconds(1);

}  // namespace

SendOrder::SendOrder(absl::Duration now)
    : register_by_(now + kRegisterTimeout), interval_(kDefaultHeartbeat) {}

void SendOrder::Registered(absl::Duration now, absl::Duration interval) {
  registered_ = true;
  may_have_message_ = true;
  next_heartbeat_ = now;
  if (interval > absl::ZeroDuration()) interval_ = interval;
}

SendOrder::Turn SendOrder::Next(absl::Duration now) const {
  if (!registered_) return now >= register_by_ ? Turn::kGiveUp : Turn::kWait;
  if (now >= next_heartbeat_) return Turn::kHeartbeat;
  return may_have_message_ ? Turn::kMessage : Turn::kWait;
}

void SendOrder::SentHeartbeat(absl::Duration now) {
  next_heartbeat_ += interval_;
  if (next_heartbeat_ <= now) next_heartbeat_ = now + interval_;
  may_have_message_ = true;
}

}  // namespace stretto::daemon
