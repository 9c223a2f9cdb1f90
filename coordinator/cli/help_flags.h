// SPDX-License-Identifier: Apache-2.0
#pragma once
// Commands about the commands: help, completion, version, and those that are programs of their own.

namespace stretto::cli {

class CommandLine;

void AddHelpCommands(CommandLine& line);

}  // namespace stretto::cli
