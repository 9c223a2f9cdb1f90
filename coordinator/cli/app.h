// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto` as a function of its arguments and its environment.

#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/cli/base/exit_codes.h"
#include "coordinator/cli/base/interrupt.h"
#include "coordinator/cli/base/terminal.h"

namespace stretto::cli {

// What the surrounding process provides; tests provide their own.
struct AppEnvironment {
  Terminal& terminal;
  Interrupt& interrupt;
  // Value of an environment variable; empty when unset.
  std::function<std::string(const std::string&)> variable;
  std::string binary_dir;
  // Replaces this process by a program of PATH, the first of the words, and returns only if that
  // fails: with the reason.
  std::function<std::string(const std::vector<std::string>&)> replace_process = {};
  bool handle_signals = false;  // raise `interrupt` on SIGINT and SIGTERM while a command waits
  absl::Duration give_up = absl::Seconds(60);
  absl::Duration retry_interval = absl::Milliseconds(500);
  absl::Duration refresh = absl::Seconds(2);
};

// Runs one command. `arguments` are those after the program's name.
ExitCode RunApp(const std::vector<std::string>& arguments, const AppEnvironment& environment);

}  // namespace stretto::cli
