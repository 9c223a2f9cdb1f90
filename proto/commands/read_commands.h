// SPDX-License-Identifier: Apache-2.0
#pragma once
// From the parser's tree of commands to plain data.

#include <string>

#include "proto/commands/command_tree.h"

namespace CLI {
class App;
}

namespace stretto {

// Reads the tree under `app`, whose path begins with `parent`. The lines of a command's footer
// become its examples.
CommandInfo ReadCommands(const CLI::App& app, const std::string& parent = "");

}  // namespace stretto
