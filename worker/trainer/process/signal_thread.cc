// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/process/signal_thread.h"

#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <time.h>

#include <utility>

#include "proto/base/clock.h"

namespace stretto::trainer {
namespace {

constexpr absl::Duration kStuck = absl::Seconds(3);
constexpr timespec kSlice = {.tv_sec = 0, .tv_nsec = 200'000'000};

sigset_t Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

SignalThread::SignalThread() : thread_([this] { Serve(); }) {}

SignalThread::~SignalThread() {
  done_.store(true);
  // Wakes the thread out of sigwait; the signal is blocked everywhere, so it ends nothing.
  pthread_kill(thread_.native_handle(), SIGTERM);  // NOLINT(bugprone-bad-signal-to-kill-thread)
  thread_.join();
}

void SignalThread::Watch(std::function<void()> abort, std::function<absl::Duration()> idle) {
  const MutexLock lock(mu_);
  abort_ = std::move(abort);
  idle_ = std::move(idle);
}

void SignalThread::Serve() {
  const sigset_t signals = Signals();
  int signal = 0;
  sigwait(&signals, &signal);
  if (done_.load()) return;
  signal_.store(signal);
  terminate_.store(true);
  spdlog::info("signal {} taken, stopping", signal);
  const absl::Duration begin = Clock::Real().Monotonic();
  while (!done_.load()) {
    if (Clock::Real().Monotonic() - begin >= kStuck) {
      const MutexLock lock(mu_);
      if (abort_ && idle_() >= kStuck) return abort_();
    }
    // More signals say nothing new: the service manager and the daemon may each send one.
    sigtimedwait(&signals, nullptr, &kSlice);
  }
}

}  // namespace stretto::trainer
