// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a daemon does when a connection to the coordinator has ended: whether it connects again,
// when, and whether that is worth a line in its log. It knows no connection and no clock.

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace stretto::daemon {

// The pause before connection attempt `attempt` (0 = first retry): 200 ms doubling up to 5 s, times
// 0.8 to 1.2; a pure function of its arguments.
absl::Duration ReconnectPause(uint64_t seed, int attempt);

// Not thread-safe.
class Reconnect {
 public:
  struct Next {
    // The coordinator will never accept this daemon; the rest is not set. So it is after a
    // registration that was answered with FAILED_PRECONDITION, INVALID_ARGUMENT or ALREADY_EXISTS,
    // and before the first registration also with PERMISSION_DENIED or UNAUTHENTICATED. (Later, a
    // wrong certificate may be replaced, and ranks train meanwhile.) A session that was registered
    // has been accepted, so whatever ends it, the daemon connects again.
    bool refused = false;
    bool tell = false;  // the first failure of an outage, and the first of each kind
    // A certificate was denied. An open connection keeps the one that it began with, so only a new
    // connection shows another.
    bool renew = false;
    absl::Duration pause;  // before the next attempt, which is at the next address
  };

  // `addresses`: of coordinators, of which one leads; each is tried once before a pause.
  Reconnect(uint64_t seed, size_t addresses) : seed_(seed), addresses_(addresses) {}

  // A connection ended with `status`, which may be OK; `registered`: the coordinator had accepted
  // it.
  Next Ended(const absl::Status& status, bool registered);

 private:
  uint64_t seed_;
  size_t addresses_;
  size_t failed_ = 0;  // connections since the last registered one
  int attempt_ = 0;    // pauses since then
  absl::StatusCode told_ = absl::StatusCode::kOk;
  bool ever_registered_ = false;
};

}  // namespace stretto::daemon
