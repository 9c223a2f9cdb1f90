// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/signal_thread.h"

#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <time.h>

#include <utility>

namespace stretto::trainer {
namespace {

constexpr timespec kStuck = {.tv_sec = 3, .tv_nsec = 0};

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

void SignalThread::Watch(std::function<void()> abort) {
  const MutexLock lock(mu_);
  abort_ = std::move(abort);
}

void SignalThread::Serve() {
  const sigset_t signals = Signals();
  int signal = 0;
  sigwait(&signals, &signal);
  if (done_.load()) return;
  terminate_.store(true);
  spdlog::info("signal {} taken, stopping", signal);
  // Gives the process time to end; a second signal aborts at once.
  sigtimedwait(&signals, nullptr, &kStuck);
  if (done_.load()) return;
  const MutexLock lock(mu_);
  if (abort_) abort_();
}

}  // namespace stretto::trainer
