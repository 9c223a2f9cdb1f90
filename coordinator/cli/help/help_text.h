// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `--help` prints.

#include <string>
#include <vector>

#include "coordinator/cli/help/command_tree.h"

namespace stretto::cli {

// Help of the command at the end of `path`, which begins with the root and is not empty; for a
// terminal of 80 columns.
std::string HelpText(const std::vector<const CommandInfo*>& path);

}  // namespace stretto::cli
