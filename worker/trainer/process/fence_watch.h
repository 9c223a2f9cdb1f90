// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds out that a newer attempt of the run has begun, while this one saves nothing.

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace stretto::trainer {

// Asks `look` every `interval`, on a thread of its own, until it returns Aborted. No other error
// proves anything. It may wait for a file server for as long as it likes: that delays nothing but
// the next look.
class FenceWatch {
 public:
  // `look` must own what it uses.
  FenceWatch(std::function<absl::Status()> look, absl::Duration interval,
             absl::Duration patience = absl::Seconds(2));
  // Waits up to `patience` for the look in progress. One that takes longer is left to itself, and
  // ends with the process at the latest.
  ~FenceWatch();
  FenceWatch(const FenceWatch&) = delete;
  FenceWatch& operator=(const FenceWatch&) = delete;

  // Whether a look has returned Aborted. Never waits. Thread-safe.
  bool fenced() const;

 private:
  struct State;
  static void Run(const std::shared_ptr<State>& state, absl::Duration interval);

  const absl::Duration patience_;
  std::shared_ptr<State> state_;  // also of the thread
  std::thread thread_;
};

}  // namespace stretto::trainer
