// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto job watch` on a terminal: draws the state of a job and reads keys.

#include <string>
#include <thread>

#include "coordinator/cli/client/follow.h"
#include "coordinator/cli/client/invocation.h"
#include "coordinator/cli/screen/full_screen.h"
#include "coordinator/cli/screen/watch_state.h"
#include "proto/base/mutex.h"

namespace stretto::cli {

// Owns the terminal during its lifetime. One thread draws, at most ten times a second, and raises
// the invocation's interrupt at `q`. Another asks for the job every two seconds, because steps of
// ranks other than 0 cause no event.
class WatchScreen {
 public:
  // `invocation` is borrowed.
  WatchScreen(const Invocation& invocation, const std::string& job);
  ~WatchScreen();

  // The handlers must be called by one thread.
  FollowHandlers handlers();

 private:
  void DrawLoop();
  void AskLoop();
  void Change(const std::function<void(absl::Time now)>& change);

  const Invocation& invocation_;
  const std::string job_;
  FullScreen screen_;
  Mutex mu_;
  WatchState state_ GUARDED_BY(mu_);
  FileDescriptor changed_;  // readable after a change, until read
  Interrupt stop_;          // ends both threads
  std::thread draw_, ask_;
};

}  // namespace stretto::cli
