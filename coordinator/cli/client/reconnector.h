// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a command that follows something does while there is no coordinator.

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/cli/client/invocation.h"

namespace stretto::cli {

// Returns true for errors after which the same call may succeed: the coordinator is restarting, or
// the network is briefly unavailable.
bool IsTransient(const absl::Status& status);

// Reports lost and restored connections, once each, and decides when to stop trying. One thread.
class Reconnector {
 public:
  // References are borrowed, `what` is copied. `what` reports the rest: "the job continues".
  Reconnector(const Invocation& invocation, const std::string& what,
              const std::function<void(const std::string&)>& notice);

  // Called when a stream is opened. Unless it may be silent for long, a stream without any event
  // counts as a loss.
  void Opened(bool may_stay_silent) { silence_is_fine_ = may_stay_silent; }

  void Connected();

  // Called after a stream broke, or a call failed, with a transient error. Waits a little and
  // returns OK to try again. Errors: Unavailable after invocation.give_up.
  absl::Status Wait(const absl::Status& status);

 private:
  const Invocation& invocation_;
  const std::string what_;
  const std::function<void(const std::string&)>& notice_;
  bool lost_ = false;
  bool silence_is_fine_ = false;
  absl::Duration heard_;
};

}  // namespace stretto::cli
