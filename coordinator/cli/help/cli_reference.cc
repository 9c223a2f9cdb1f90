// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/help/cli_reference.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/base/exit_codes.h"
#include "coordinator/cli/text/markdown_cell.h"
#include "proto/commands/usage.h"

namespace stretto::cli {
namespace {

constexpr char kCommandsHead[] =
    R"(<!-- Written by reference_test; do not edit. -->
# Commands

This page describes every command of `stretto`; `stretto COMMAND --help` prints the same text. Each
command except for `data`, `checkpoint` and `sample` also accepts the flags of `stretto` itself.
)";

std::string Row(const std::string& name, const FlagInfo& flag) {
  std::string text = MarkdownCell(flag.help);
  if (flag.required) text += " (required)";
  if (!flag.default_value.empty()) {
    absl::StrAppend(&text, " (default `", flag.default_value, "`)");
  }
  return absl::StrCat("| `", MarkdownCell(name), "` | ", text, " |\n");
}

std::string OptionTable(const CommandInfo& command) {
  std::string out;
  for (const FlagInfo& argument : command.arguments) out += Row(argument.names[0], argument);
  for (const FlagInfo& flag : command.flags) out += Row(FlagName(flag), flag);
  return out.empty() ? "" : absl::StrCat("\n| | |\n|---|---|\n", out);
}

void AppendCommand(const CommandInfo& command, bool root, std::string* out) {
  if (root || command.commands.empty()) {
    absl::StrAppend(out, "\n## ", command.path, "\n\n", command.help, "\n");
    if (command.commands.empty()) absl::StrAppend(out, "\n```\n", Usage(command), "\n```\n");
    *out += OptionTable(command);
    if (root) absl::StrAppend(out, "\n", kExitCodeHelp, "\n");
    if (!command.examples.empty()) {
      absl::StrAppend(out, "\n```sh\n", absl::StrJoin(command.examples, "\n"), "\n```\n");
    }
  }
  for (const CommandInfo& sub : command.commands) AppendCommand(sub, false, out);
}

}  // namespace

std::string CliReference(const CommandInfo& root) {
  std::string out = kCommandsHead;
  AppendCommand(root, true, &out);
  return out;
}

}  // namespace stretto::cli
