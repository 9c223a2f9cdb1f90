// SPDX-License-Identifier: Apache-2.0

// stretto-model: runs `stretto checkpoint` and `stretto sample` in a separate process, without
// Protobuf (docs/design/0002).

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>

#include "worker/tool/checkpoint_commands.h"
#include "worker/tool/sample_command.h"

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error, like a full disk
  CLI::App app{"Inspect, verify, export and sample models", "stretto"};
  app.require_subcommand(1);
  stretto::AddCheckpointCommands(app);
  stretto::AddSampleCommand(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::RuntimeError& failed) {  // the command has printed the reason
    return failed.get_exit_code();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {  // usually out of memory
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
