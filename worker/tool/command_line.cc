// SPDX-License-Identifier: Apache-2.0
#include "worker/tool/command_line.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/commands/program.h"
#include "proto/commands/read_commands.h"
#include "worker/tool/checkpoint_commands.h"
#include "worker/tool/sample_command.h"

namespace stretto {

int RunModelCommand(int argc, char** argv) {
  CLI::App app{"Inspect, verify, export and sample models", "stretto"};
  app.require_subcommand(1);
  UseHelpText(&app, "");  // before the commands, which take it over
  AddCheckpointCommands(app);
  AddSampleCommand(app);
  if (argc == 2 && argv[1] == absl::string_view(kPrintCommands)) {
    const std::string text = JsonText(CommandsDocument(ReadCommands(app).commands), false);
    std::fputs(text.c_str(), stdout);
    return 0;
  }
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

}  // namespace stretto
