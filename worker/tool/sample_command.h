// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto sample`: a model goes on where a prompt ends.

namespace CLI {
class App;
}

namespace stretto {

// A command that fails says why on stderr and leaves App::parse by CLI::RuntimeError, whose exit
// code is 1. Ctrl-C ends the process at the model's next layer, with what was written.
void AddSampleCommand(CLI::App& app);

}  // namespace stretto
