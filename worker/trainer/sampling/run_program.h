// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs a program to its end.

#include <atomic>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace stretto::trainer {

// Runs `command`, of which the first is the program's path, with low priority and without input,
// and returns what it wrote. When `given_up` becomes true, the program is killed. Whoever kills the
// process group of this process kills it too. Errors: NotFound and the like (it cannot be started),
// Cancelled (given up), Internal (it failed; the message has the end of what it wrote).
absl::StatusOr<std::string> RunProgram(const std::vector<std::string>& command,
                                       const std::atomic<bool>& given_up);

}  // namespace stretto::trainer
