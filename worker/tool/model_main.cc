// SPDX-License-Identifier: Apache-2.0

// stretto-model: runs `stretto checkpoint` and `stretto sample` in a separate process, without
// Protobuf (docs/design/0002).

#include <csignal>

#include "worker/tool/command_line.h"

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error, like a full disk
  return stretto::RunModelCommand(argc, argv);
}
