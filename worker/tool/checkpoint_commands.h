// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto checkpoint list|inspect|verify|export`. No command changes a checkpoint.

namespace CLI {
class App;
}

namespace stretto {

// A command that fails prints the reason to stderr and leaves App::parse by CLI::RuntimeError with
// exit code 1.
void AddCheckpointCommands(CLI::App& app);

}  // namespace stretto
