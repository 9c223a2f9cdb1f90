// SPDX-License-Identifier: Apache-2.0
#pragma once
// The command line of stretto-model.

namespace stretto {

// Runs the command that the arguments name. Returns the exit code of the program: 2 for a wrong
// command line, 1 for a command that failed. Errors are printed to stderr.
int RunModelCommand(int argc, char** argv);

}  // namespace stretto
