// SPDX-License-Identifier: Apache-2.0
#pragma once
// The text of `--help`.

#include <string>
#include <vector>

#include "proto/commands/command_tree.h"

namespace stretto {

// Returns the help of the command at the end of `path`, which begins with the root and is not
// empty, for a terminal of 80 columns. `closing` follows it, if not empty.
std::string HelpText(const std::vector<const CommandInfo*>& path, const std::string& closing);

}  // namespace stretto
