// SPDX-License-Identifier: Apache-2.0
#pragma once
// Commands about the commands: help, completion, version, and commands that are separate programs.

namespace stretto::cli {

class CommandLine;

void AddHelpCommands(CommandLine& line);

}  // namespace stretto::cli
