// SPDX-License-Identifier: Apache-2.0
#pragma once
// Handles Ctrl-C while something is written that must not be left incomplete.

namespace stretto {

// During its lifetime, the first SIGINT, SIGTERM or SIGHUP only sets a flag; a second one ends the
// process as usual. Ignored signals remain ignored. One instance at a time.
class InterruptFlag {
 public:
  InterruptFlag();
  ~InterruptFlag();

  static bool raised();
  // Ends the process by the signal that was received.
  [[noreturn]] static void Die();

 private:
  void (*before_[3])(int);
};

}  // namespace stretto
