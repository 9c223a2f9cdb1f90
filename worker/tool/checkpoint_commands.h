// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto checkpoint list|inspect|verify|export`. Nothing here changes a checkpoint.

namespace CLI {
class App;
}

namespace stretto {

// A command that fails says why on stderr and leaves App::parse by CLI::RuntimeError, whose exit
// code is 1.
void AddCheckpointCommands(CLI::App& app);

}  // namespace stretto
