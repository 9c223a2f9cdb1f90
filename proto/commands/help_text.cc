// SPDX-License-Identifier: Apache-2.0
#include "proto/commands/help_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/commands/usage.h"

namespace stretto {
namespace {

constexpr size_t kWidth = 80;
constexpr size_t kColumn = 26;  // column of descriptions

// "  NAME          text", with the text wrapped in its own column.
std::string Entry(const std::string& name, const std::string& text) {
  std::string out = absl::StrCat("  ", name);
  size_t column = out.size();
  const auto new_line = [&] {
    absl::StrAppend(&out, "\n", std::string(kColumn, ' '));
    column = kColumn;
  };
  if (column + 2 > kColumn) {
    new_line();
  } else {
    out.append(kColumn - column, ' ');
    column = kColumn;
  }
  bool first = true;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!first && column + 1 + word.size() > kWidth) {
      new_line();
      first = true;
    }
    absl::StrAppend(&out, first ? "" : " ", word);
    column += word.size() + (first ? 0 : 1);
    first = false;
  }
  return out + "\n";
}

}  // namespace

std::string HelpText(const std::vector<const CommandInfo*>& path, const std::string& closing) {
  const CommandInfo& command = *path.back();
  std::string out = absl::StrCat(command.help, "\n\nUsage: ", Usage(command), "\n");
  if (!command.arguments.empty()) out += "\nArguments:\n";
  for (const FlagInfo& argument : command.arguments) {
    out += Entry(ArgumentName(argument), ArgumentHelp(argument));
  }
  if (!command.commands.empty()) out += "\nCommands:\n";
  for (const CommandInfo& sub : command.commands) out += Entry(sub.name, sub.help);
  out += "\nFlags:\n";
  for (const FlagInfo& flag : command.flags) out += Entry(FlagName(flag), FlagHelp(flag));
  out += Entry("-h, --help", "print this help");
  std::string inherited;
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    for (const FlagInfo& flag : path[i]->flags) inherited += Entry(FlagName(flag), FlagHelp(flag));
    if (path[i + 1]->apart) inherited.clear();
  }
  if (!inherited.empty()) absl::StrAppend(&out, "\nGlobal flags:\n", inherited);
  if (!command.examples.empty()) out += "\nExamples:\n";
  for (const std::string& example : command.examples) absl::StrAppend(&out, "  ", example, "\n");
  if (!closing.empty()) absl::StrAppend(&out, "\n", closing, "\n");
  return out;
}

}  // namespace stretto
