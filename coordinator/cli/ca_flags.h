// SPDX-License-Identifier: Apache-2.0
#pragma once
// The flags of `stretto ca ...`.

namespace stretto::cli {

class CommandLine;

void AddCaCommands(CommandLine& line);

}  // namespace stretto::cli
