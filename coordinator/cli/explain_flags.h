// SPDX-License-Identifier: Apache-2.0
#pragma once
// The flags of `stretto explain`.

namespace stretto::cli {

class CommandLine;

void AddExplainCommand(CommandLine& line);

}  // namespace stretto::cli
