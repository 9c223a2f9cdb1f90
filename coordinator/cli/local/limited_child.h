// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs a program for its output within fixed limits, whatever its input.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/cli/base/interrupt.h"

namespace stretto::cli {

struct ChildLimits {
  int cpu_seconds = 60;
  int64_t memory_bytes = int64_t{8} << 30;  // of address space
  int64_t output_bytes = int64_t{64} << 20;
  absl::Duration deadline = absl::Seconds(60);
};

// Runs `command`, the path of a program and its arguments, with `input` as its standard input, and
// returns its standard output. The child is killed at the deadline and when this process ends.
// Errors: NotFound, PermissionDenied (the program), DeadlineExceeded, Cancelled (interrupted),
// Internal (it failed; the message has its standard error), and errors of creating its files.
absl::StatusOr<std::string> RunLimited(const std::vector<std::string>& command,
                                       const std::string& input, const ChildLimits& limits,
                                       Interrupt& interrupt);

}  // namespace stretto::cli
