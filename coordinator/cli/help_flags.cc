// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/help_flags.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/help/complete.h"
#include "coordinator/cli/other_programs.h"
#include "proto/base/version.h"
#include "proto/commands/choice.h"
#include "proto/spec/presets.h"

namespace stretto::cli {
namespace {

ExitCode PrintVersion(const Terminal& terminal, OutputFormat format) {
  std::vector<std::string> presets;
  for (const ModelPreset& preset : kModelPresets) presets.push_back(preset.name);
  if (format == OutputFormat::kTable) {
    terminal.out << "stretto " << kBuildVersion << "\nprotocol " << kProtocolVersion
                 << "\nmodel presets: " << absl::StrJoin(presets, ", ") << "\n";
  } else {
    terminal.out << TextOf({{"version", std::string(kBuildVersion)},
                            {"protocol", kProtocolVersion},
                            {"presets", presets}},
                           format);
  }
  return kOk;
}

ExitCode PrintHelp(const CommandLine& line, const std::vector<std::string>& words) {
  const absl::StatusOr<std::string> help = line.HelpOf(words);
  if (!help.ok()) {
    line.terminal().err << "error: " << help.status().message() << "\n";
    return kUsage;
  }
  line.terminal().out << *help;
  return kOk;
}

// stretto_main.cc starts these programs. Here are their names, and an answer to flags that precede
// them.
void AddOtherPrograms(CommandLine& line) {
  for (const OtherProgram& other : kOtherPrograms) {
    const auto words = std::make_shared<std::vector<std::string>>();
    CLI::App* command = line.AddLocal(line.root(), other.command, other.help,
                                      [&line, &other, words] {
                                        line.terminal().err
                                            << "error: found a flag before `" << other.command
                                            << "`, expected `stretto " << other.command
                                            << " ...`\n";
                                        return kUsage;
                                      },
                                      {absl::StrCat("stretto ", other.command, " --help")});
    command->fallthrough(false)->allow_extras();
    command->add_option("ARGUMENT", *words, "argument of the command");
  }
}

void AddCompletion(CommandLine& line) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* completion = line.AddLocal(
      line.root(), "completion", "Print a shell completion script",
      [&line, shell] {
        line.terminal().out << CompletionScript(*shell);
        return kOk;
      },
      {"source <(stretto completion bash)", "stretto completion zsh > ~/.zfunc/_stretto",
       "stretto completion fish > ~/.config/fish/completions/stretto.fish"});
  Choice(completion->add_option("SHELL", *shell, "shell to complete in")->required(),
         "bash|zsh|fish");
}

}  // namespace

void AddHelpCommands(CommandLine& line) {
  AddOtherPrograms(line);
  line.AddLocal(line.root(), "version", "Print the version and the model presets",
                [&line] { return PrintVersion(line.terminal(), line.format()); },
                {"stretto version", "stretto version -o json"});
  AddCompletion(line);
  const auto words = std::make_shared<std::vector<std::string>>();
  line.AddLocal(line.root(), "help", "Print help for a command",
                [&line, words] { return PrintHelp(line, *words); },
                {"stretto help job", "stretto help job submit"})
      ->add_option("COMMAND", *words, "command to describe (default: stretto itself)");
}

}  // namespace stretto::cli
