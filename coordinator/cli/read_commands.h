// SPDX-License-Identifier: Apache-2.0
#pragma once
// From the parser's tree of commands to plain data.

#include "coordinator/cli/help/command_tree.h"

namespace CLI {
class App;
}

namespace stretto::cli {

// Reads the tree under `app`. The lines of a command's footer become its examples.
CommandInfo ReadCommands(const CLI::App& app);

}  // namespace stretto::cli
