// SPDX-License-Identifier: Apache-2.0
#pragma once
// A command and what it takes, as its help, the man page and the Markdown reference name them. Each
// is one line.

#include <string>

#include "coordinator/cli/help/command_tree.h"

namespace stretto::cli {

// "-o, --output FILE".
std::string FlagName(const FlagInfo& flag);
// What it does, with its default: "rows (default: 16)".
std::string FlagHelp(const FlagInfo& flag);
// "JOB", "[COMMAND...]".
std::string ArgumentName(const FlagInfo& argument);
// As FlagHelp, with the words it may be.
std::string ArgumentHelp(const FlagInfo& argument);
// "stretto job logs [FLAGS] JOB".
std::string Usage(const CommandInfo& command);

}  // namespace stretto::cli
