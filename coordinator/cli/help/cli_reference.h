// SPDX-License-Identifier: Apache-2.0
#pragma once
// docs/reference/cli.md: the tree of commands as Markdown.

#include <string>

#include "proto/commands/command_tree.h"

namespace stretto::cli {

// Every command with its description, arguments, flags and examples.
std::string CliReference(const CommandInfo& root);

}  // namespace stretto::cli
