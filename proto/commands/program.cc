// SPDX-License-Identifier: Apache-2.0
#include "proto/commands/program.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/commands/help_text.h"
#include "proto/commands/read_commands.h"

namespace stretto {
namespace {

Document FlagDocument(const FlagInfo& flag) {
  return {{"names", flag.names},           {"value", flag.value},       {"help", flag.help},
          {"default", flag.default_value}, {"required", flag.required}, {"repeats", flag.repeats}};
}

Document CommandDocument(const CommandInfo& command) {
  Document document = {{"name", command.name},           {"help", command.help},
                       {"examples", command.examples},   {"flags", Document::array()},
                       {"arguments", Document::array()}, {"commands", Document::array()}};
  for (const FlagInfo& flag : command.flags) document["flags"].push_back(FlagDocument(flag));
  for (const FlagInfo& flag : command.arguments)
    document["arguments"].push_back(FlagDocument(flag));
  for (const CommandInfo& sub : command.commands)
    document["commands"].push_back(CommandDocument(sub));
  return document;
}

FlagInfo FlagOf(const Document& document) {
  return {.names = document.at("names").get<std::vector<std::string>>(),
          .value = document.at("value").get<std::string>(),
          .help = document.at("help").get<std::string>(),
          .default_value = document.at("default").get<std::string>(),
          .required = document.at("required").get<bool>(),
          .repeats = document.at("repeats").get<bool>()};
}

CommandInfo CommandOf(const Document& document, const std::string& parent) {
  CommandInfo command{.name = document.at("name").get<std::string>(),
                      .path = absl::StrCat(parent, " ", document.at("name").get<std::string>()),
                      .help = document.at("help").get<std::string>(),
                      .examples = document.at("examples").get<std::vector<std::string>>()};
  for (const Document& flag : document.at("flags")) command.flags.push_back(FlagOf(flag));
  for (const Document& flag : document.at("arguments")) command.arguments.push_back(FlagOf(flag));
  for (const Document& sub : document.at("commands"))
    command.commands.push_back(CommandOf(sub, command.path));
  return command;
}

}  // namespace

void UseHelpText(CLI::App* app, const std::string& parent) {
  app->formatter_fn([app, parent](const CLI::App* command, const std::string&, CLI::AppFormatMode) {
    std::vector<std::string> words;
    for (; command != app; command = command->get_parent()) {
      words.insert(words.begin(), command->get_name());
    }
    const CommandInfo root = ReadCommands(*app, parent);
    std::vector<const CommandInfo*> path = {&root};
    for (const std::string& word : words) {
      for (const CommandInfo& sub : path.back()->commands) {
        if (sub.name != word) continue;
        path.push_back(&sub);
        break;
      }
    }
    return HelpText(path, "");
  });
}

Document CommandsDocument(const std::vector<CommandInfo>& commands) {
  Document list = Document::array();
  for (const CommandInfo& command : commands) list.push_back(CommandDocument(command));
  return list;
}

absl::StatusOr<std::vector<CommandInfo>> ParseCommands(const std::string& text) {
  std::vector<CommandInfo> commands;
  try {
    for (const Document& document : Document::parse(text)) {
      CommandInfo& command = commands.emplace_back(CommandOf(document, "stretto"));
      command.apart = true;
    }
  } catch (const Document::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("found no commands: ", error.what()));
  }
  return commands;
}

}  // namespace stretto
