// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto-bench devices`: lists the GPUs that this build could train on, or why there are none.

#include <ostream>
#include <string>
#include <vector>

namespace stretto {

// Prints a line for each device to `out`, or the reason to `err`. Returns the exit code: 0; 1 if no
// device is usable; 2 if an argument is wrong.
int DevicesCommand(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);

}  // namespace stretto
