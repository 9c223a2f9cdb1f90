// SPDX-License-Identifier: Apache-2.0
#pragma once
// The man page.

#include <string>

#include "proto/commands/command_tree.h"

namespace stretto::cli {

// stretto(1) in the man macros.
std::string ManPage(const CommandInfo& root, const std::string& version);

}  // namespace stretto::cli
