// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/base/interrupt.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "proto/base/check.h"
#include "proto/base/clock.h"

namespace stretto::cli {
namespace {

void Signal(int event_fd) {
  const uint64_t one = 1;
  STRETTO_CHECK(write(event_fd, &one, sizeof one) == sizeof one);
}

}  // namespace

Interrupt::Interrupt()
    : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      resize_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  STRETTO_CHECK(fd_.valid() && resize_fd_.valid());
}

void Interrupt::Raise() {
  const MutexLock lock(mu_);
  ++count_;
  Signal(fd_.get());
  if (action_) action_();
}

void Interrupt::Resize() { Signal(resize_fd_.get()); }

bool Interrupt::WaitFor(absl::Duration duration) const {
  const absl::Duration deadline = Clock::Real().Monotonic() + duration;
  while (!raised()) {
    const absl::Duration left = deadline - Clock::Real().Monotonic();
    if (left <= absl::ZeroDuration()) return false;
    pollfd ready = {fd_.get(), POLLIN, 0};
    const int64_t left_ms = absl::ToInt64Milliseconds(left) + 1;
    poll(&ready, 1, static_cast<int>(std::min<int64_t>(left_ms, 60'000)));
  }
  return true;
}

Interrupt::OnRaise::OnRaise(Interrupt& interrupt, std::function<void()> action)
    : interrupt_(interrupt) {
  const MutexLock lock(interrupt_.mu_);
  STRETTO_CHECK(!interrupt_.action_);
  if (interrupt_.raised()) action();
  interrupt_.action_ = std::move(action);
}

Interrupt::OnRaise::~OnRaise() {
  const MutexLock lock(interrupt_.mu_);
  interrupt_.action_ = nullptr;
}

SignalThread::SignalThread(Interrupt& interrupt) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGWINCH);
  struct sigaction hangup = {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);
  STRETTO_CHECK(pthread_sigmask(SIG_BLOCK, &set, &old_mask_) == 0);
  signals_ = FileDescriptor(signalfd(-1, &set, SFD_CLOEXEC));
  stop_ = FileDescriptor(eventfd(0, EFD_CLOEXEC));
  STRETTO_CHECK(signals_.valid() && stop_.valid());
  thread_ = std::thread([this, &interrupt] {
    while (true) {
      pollfd ready[2] = {{signals_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
      poll(ready, 2, -1);
      if (ready[1].revents != 0) return;
      signalfd_siginfo info;
      if (ready[0].revents != 0 && read(signals_.get(), &info, sizeof info) == sizeof info) {
        info.ssi_signo == SIGWINCH ? interrupt.Resize() : interrupt.Raise();
      }
    }
  });
}

SignalThread::~SignalThread() {
  Signal(stop_.get());
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

}  // namespace stretto::cli
