// SPDX-License-Identifier: Apache-2.0
#pragma once
// In which order one session sends: nothing but Register until the coordinator has answered, then
// heartbeats on time and messages between them. A heartbeat that is due comes before every message,
// so that a long replay of reports does not cost the lease. It knows no thread, connection or
// clock.

#include "absl/time/time.h"

namespace stretto::daemon {

// Not thread-safe. Times are monotonic.
class SendOrder {
 public:
  enum class Turn {
    kWait,       // until WakeAt, or until another method is called
    kGiveUp,     // end the connection: Register has had no answer in time
    kHeartbeat,  // send one and call SentHeartbeat
    kMessage,    // ask for a message, which there may be, and call Asked before
  };

  // Register is being sent.
  explicit SendOrder(absl::Duration now);

  // Register has been answered. `interval` is that of heartbeats; 0: a default.
  void Registered(absl::Duration now, absl::Duration interval);
  // There may be a message.
  void Wake() { may_have_message_ = true; }

  Turn Next(absl::Duration now) const;
  // There may be a message now, because some belong to a heartbeat. Heartbeats that were missed
  // while the process stood still are not made up for.
  void SentHeartbeat(absl::Duration now);
  // After it, Wake if there was a message.
  void Asked() { may_have_message_ = false; }

  // When Next changes although nobody calls.
  absl::Duration WakeAt() const { return registered_ ? next_heartbeat_ : register_by_; }

 private:
  absl::Duration register_by_, next_heartbeat_, interval_;
  bool registered_ = false;
  bool may_have_message_ = false;
};

}  // namespace stretto::daemon
