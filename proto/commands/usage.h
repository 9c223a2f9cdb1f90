// SPDX-License-Identifier: Apache-2.0
#pragma once
// A command, its flags and its arguments as the help, the man page and the Markdown reference print
// them. Each is one line.

#include <string>

#include "proto/commands/command_tree.h"

namespace stretto {

// "-o, --output FILE".
std::string FlagName(const FlagInfo& flag);
// The help of a flag with its default: "rows (default: 16)".
std::string FlagHelp(const FlagInfo& flag);
// "JOB", "[COMMAND...]".
std::string ArgumentName(const FlagInfo& argument);
// Like FlagHelp, with the words that it accepts.
std::string ArgumentHelp(const FlagInfo& argument);
// "stretto job logs [FLAGS] JOB".
std::string Usage(const CommandInfo& command);

}  // namespace stretto
