// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto sample`: a model continues a prompt.

namespace CLI {
class App;
}

namespace stretto {

// A command that fails prints the reason to stderr and leaves App::parse by CLI::RuntimeError with
// exit code 1. Ctrl-C ends the process at the model's next layer and keeps the output so far.
void AddSampleCommand(CLI::App& app);

}  // namespace stretto
