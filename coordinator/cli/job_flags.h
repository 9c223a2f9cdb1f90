// SPDX-License-Identifier: Apache-2.0
#pragma once
// The flags of `stretto job ...`.

namespace stretto::cli {

class CommandLine;

void AddJobCommands(CommandLine& line);

}  // namespace stretto::cli
