// SPDX-License-Identifier: Apache-2.0
#pragma once
// For programs whose commands are commands of `stretto`, which runs them: they print help as it
// does, and their commands as data, so that its help, its reference and its completion have them.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/commands/command_tree.h"
#include "proto/document/document.h"

namespace CLI {
class App;
}

namespace stretto {

// The argument with which such a program prints its commands.
inline constexpr char kPrintCommands[] = "__commands";

// Makes `app` and the commands that are added to it from now on print HelpText. `parent` is the
// path before its name: "stretto".
void UseHelpText(CLI::App* app, const std::string& parent);

// The commands as a document, and back. Paths begin with "stretto". Errors: InvalidArgument.
Document CommandsDocument(const std::vector<CommandInfo>& commands);
absl::StatusOr<std::vector<CommandInfo>> ParseCommands(const std::string& text);

}  // namespace stretto
