// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto-bench sim`: what a schedule of a model would do on a machine that does not exist.

#include <ostream>
#include <string>
#include <vector>

namespace stretto {

// Results go to `out`, one line about an error to `err`. Returns the exit code: 0; 1 when the
// simulation failed; 2 when an argument names nothing or is impossible.
int SimCommand(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);

}  // namespace stretto
