// SPDX-License-Identifier: Apache-2.0
#pragma once
// Commands of `stretto` that are separate programs beside it, because the libraries they link must
// not meet our Protobuf in one process (docs/design/0002). They print their commands as data, which
// are the tree that help, reference and completion show.

#include <string>
#include <vector>

#include "coordinator/cli/app.h"
#include "proto/commands/command_tree.h"

namespace stretto::cli {

struct OtherProgram {
  const char* command;
  const char* program;
  int skipped_words;  // leading words of the command line that the program does not get
  const char* help;   // that of the program; here for lists of commands, which need not run it
};

inline constexpr OtherProgram kOtherPrograms[] = {
    {"data", "stretto-data", 1, "Prepare and inspect training data"},
    {"checkpoint", "stretto-model", 0, "Inspect, verify and export checkpoints"},
    {"sample", "stretto-model", 0, "Generate text with a model on this machine's CPU"},
};

// Replaces the commands in `root` that are separate programs by the trees that these print: those
// among `words`, or all if it is null. A program that does not answer leaves its command as it is.
void AddTheirCommands(const std::vector<std::string>* words, const AppEnvironment& environment,
                      CommandInfo* root);

}  // namespace stretto::cli
