// SPDX-License-Identifier: Apache-2.0
#include "proto/commands/usage.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace stretto {

std::string FlagName(const FlagInfo& flag) {
  return absl::StrCat(absl::StrJoin(flag.names, ", "), flag.value.empty() ? "" : " ", flag.value);
}

std::string FlagHelp(const FlagInfo& flag) {
  return flag.default_value.empty()
             ? flag.help
             : absl::StrCat(flag.help, " (default: ", flag.default_value, ")");
}

std::string ArgumentName(const FlagInfo& argument) {
  const std::string name = absl::StrCat(argument.names[0], argument.repeats ? "..." : "");
  return argument.required ? name : absl::StrCat("[", name, "]");
}

std::string ArgumentHelp(const FlagInfo& argument) {
  const bool choice = argument.value.find('|') != std::string::npos;
  return choice
             ? absl::StrCat(argument.help, ": ", absl::StrReplaceAll(argument.value, {{"|", ", "}}))
             : FlagHelp(argument);
}

std::string Usage(const CommandInfo& command) {
  std::string usage = command.path;
  if (!command.flags.empty()) usage += " [FLAGS]";
  if (!command.commands.empty()) usage += " COMMAND";
  for (const FlagInfo& argument : command.arguments) {
    absl::StrAppend(&usage, " ", ArgumentName(argument));
  }
  return usage;
}

}  // namespace stretto
