// SPDX-License-Identifier: Apache-2.0
#pragma once
// SIGINT, SIGTERM, SIGHUP and SIGWINCH as values. No code of ours runs in a signal handler: the
// signals are blocked, and a dedicated thread reads them.

#include <atomic>
#include <csignal>
#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "proto/base/files.h"
#include "proto/base/mutex.h"

namespace stretto::cli {

// The user's request to stop. Thread-safe.
class Interrupt {
 public:
  Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  void Raise();
  bool raised() const { return count_ > 0; }
  int count() const { return count_; }
  // Readable after each Raise, until read.
  int fd() const { return fd_.get(); }
  // Reports that the terminal has a new size.
  void Resize();
  // Readable after each Resize, until read.
  int resize_fd() const { return resize_fd_.get(); }
  // Waits for `duration`; returns true as soon as it is raised.
  bool WaitFor(absl::Duration duration) const;

  // Runs `action` at the next Raise, on the raising thread, or immediately if already raised. The
  // action no longer runs once the destructor has returned. At most one exists at a time.
  class OnRaise {
   public:
    OnRaise(Interrupt& interrupt, std::function<void()> action);
    ~OnRaise();

   private:
    Interrupt& interrupt_;
  };

 private:
  std::atomic<int> count_ = 0;
  FileDescriptor fd_, resize_fd_;
  Mutex mu_;
  std::function<void()> action_ GUARDED_BY(mu_);  // mu_ is held while it runs
};

// Blocks these signals in the calling thread, and so in threads it starts later, and reports each
// one to `interrupt`; SIGHUP only if nohup does not ignore it. Create it before other threads. The
// destructor restores the mask.
class SignalThread {
 public:
  explicit SignalThread(Interrupt& interrupt);
  ~SignalThread();

 private:
  sigset_t old_mask_;
  FileDescriptor signals_;
  FileDescriptor stop_;
  std::thread thread_;
};

}  // namespace stretto::cli
