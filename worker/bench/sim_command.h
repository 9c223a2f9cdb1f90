// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto-bench sim`: simulates a schedule of a model on a machine that need not exist.

#include <ostream>
#include <string>
#include <vector>

#include "proto/commands/terminal_width.h"

namespace stretto {

// Prints results to `out`, and one line about an error to `err`. Timelines have lines of `width`
// columns, unless the arguments say otherwise. Returns the exit code: 0; 1 if the simulation
// failed; 2 if an argument is unknown or impossible.
int SimCommand(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err,
               int width = kPlainWidth);

}  // namespace stretto
