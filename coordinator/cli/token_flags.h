// SPDX-License-Identifier: Apache-2.0
#pragma once
// Adds `stretto ca token ...`.

namespace CLI {
class App;
}  // namespace CLI

namespace stretto::cli {

class CommandLine;

// `ca`: the group that they are in.
void AddTokenCommands(CommandLine& line, CLI::App* ca);

}  // namespace stretto::cli
