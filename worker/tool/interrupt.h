// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ctrl-C while something is written that must not stay half done.

namespace stretto {

// While it lives, the first SIGINT, SIGTERM or SIGHUP only sets a flag; a second one ends the
// process as ever. What was ignored stays ignored. One at a time.
class InterruptFlag {
 public:
  InterruptFlag();
  ~InterruptFlag();

  static bool raised();
  // Ends the process by the signal that came.
  [[noreturn]] static void Die();

 private:
  void (*before_[3])(int);
};

}  // namespace stretto
