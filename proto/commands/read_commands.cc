// SPDX-License-Identifier: Apache-2.0
#include "proto/commands/read_commands.h"

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace stretto {
namespace {

FlagInfo ReadFlag(const CLI::Option& option) {
  FlagInfo flag{.help = option.get_description(),
                .default_value = option.get_default_str(),
                .required = option.get_required(),
                .repeats = option.get_expected_max() > 1};
  if (option.get_positional()) {
    flag.names = {option.get_name(true)};
  } else {
    for (const std::string& name : option.get_snames()) flag.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) flag.names.push_back("--" + name);
  }
  if (option.get_expected_max() == 0) return flag;
  // CLI11 appends its description of the check after a colon.
  const std::string type = std::vector<std::string>(absl::StrSplit(option.get_type_name(), ':'))[0];
  const bool choice = type.find('|') != std::string::npos;
  flag.value = option.get_positional() && !choice ? flag.names[0] : type;
  return flag;
}

CommandInfo Read(const CLI::App& app, const std::string& parent) {
  CommandInfo command{.name = app.get_name(),
                      .path = parent.empty() ? app.get_name() : parent + " " + app.get_name(),
                      .help = app.get_description()};
  for (absl::string_view line : absl::StrSplit(app.get_footer(), '\n')) {
    if (!line.empty()) command.examples.emplace_back(line);
  }
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_name() == "--help" || option->get_group().empty()) continue;  // hidden
    (option->get_positional() ? command.arguments : command.flags).push_back(ReadFlag(*option));
  }
  for (const CLI::App* sub : app.get_subcommands(nullptr)) {
    command.commands.push_back(Read(*sub, command.path));
  }
  return command;
}

}  // namespace

CommandInfo ReadCommands(const CLI::App& app, const std::string& parent) {
  return Read(app, parent);
}

}  // namespace stretto
