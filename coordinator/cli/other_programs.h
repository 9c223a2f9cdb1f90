// SPDX-License-Identifier: Apache-2.0
#pragma once
// Commands of `stretto` that are separate programs beside it, because the libraries they link must
// not meet our Protobuf in one process (docs/design/0002). `stretto` itself has only their help.

namespace stretto::cli {

struct OtherProgram {
  const char* command;
  const char* program;
  int skipped_words;  // leading words of the command line that the program does not get
  const char* help;
  const char* examples[2];
};

inline constexpr OtherProgram kOtherPrograms[] = {
    {"data",
     "stretto-data",
     1,
     "Prepare training data (see stretto data --help)",
     {"stretto data prepare *.txt --output data/mine", "stretto data --help"}},
    {"checkpoint",
     "stretto-model",
     0,
     "Inspect, verify and export checkpoints (see stretto checkpoint --help)",
     {"stretto checkpoint export checkpoints/gpt --format hf --output gpt-hf",
      "stretto checkpoint --help"}},
    {"sample",
     "stretto-model",
     0,
     "Generate text with a model (see stretto sample --help)",
     {"stretto sample checkpoints/gpt --prompt \"Once upon\"", "stretto sample --help"}},
};

}  // namespace stretto::cli
