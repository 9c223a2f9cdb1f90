// SPDX-License-Identifier: Apache-2.0
#include "worker/tool/interrupt.h"

#include <csignal>
#include <cstdlib>
#include <iterator>

namespace stretto {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

volatile std::sig_atomic_t came = 0;

extern "C" void Remember(int signal) {
  came = signal;
  std::signal(signal, SIG_DFL);
}

}  // namespace

InterruptFlag::InterruptFlag() {
  came = 0;
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    before_[i] = std::signal(kSignals[i], Remember);
    if (before_[i] == SIG_IGN) std::signal(kSignals[i], SIG_IGN);  // ignored under nohup
  }
}

InterruptFlag::~InterruptFlag() {
  for (size_t i = 0; i < std::size(kSignals); ++i) std::signal(kSignals[i], before_[i]);
}

bool InterruptFlag::raised() { return came != 0; }

void InterruptFlag::Die() {
  std::signal(came, SIG_DFL);
  std::raise(came);
  std::abort();
}

}  // namespace stretto
