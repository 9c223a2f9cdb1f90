#include "worker/tool/interrupt.h"

#include <csignal>
#include <cstdlib>

namespace stretto {
namespace {

volatile std::sig_atomic_t came = 0;

extern "C" void Remember(int signal) {
  came = signal;
  std::signal(signal, SIG_DFL);
}

}  // namespace

InterruptFlag::InterruptFlag() {
  came = 0;
  std::signal(SIGINT, Remember);
  std::signal(SIGTERM, Remember);
}

InterruptFlag::~InterruptFlag() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

bool InterruptFlag::raised() { return came != 0; }

void InterruptFlag::Die() {
  std::signal(came, SIG_DFL);
  std::raise(came);
  std::abort();
}

}  // namespace stretto
