// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/other_programs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/local/limited_child.h"
#include "proto/commands/program.h"

namespace stretto::cli {
namespace {

// A shell waits for it.
constexpr ChildLimits kLimits = {
    .cpu_seconds = 5, .output_bytes = 1 << 20, .deadline = absl::Seconds(5)};

}  // namespace

void AddTheirCommands(const std::vector<std::string>* words, const AppEnvironment& environment,
                      CommandInfo* root) {
  for (const OtherProgram& other : kOtherPrograms) {
    const bool asked = words == nullptr || std::count(words->begin(), words->end(), other.command);
    if (!asked) continue;
    const absl::StatusOr<std::string> text =
        RunLimited({absl::StrCat(environment.binary_dir, "/", other.program), kPrintCommands}, "",
                   kLimits, environment.interrupt);
    if (!text.ok()) continue;
    absl::StatusOr<std::vector<CommandInfo>> theirs = ParseCommands(*text);
    if (!theirs.ok()) continue;
    for (CommandInfo& command : root->commands) {
      for (CommandInfo& one : *theirs) {
        if (command.name == other.command && one.name == other.command) command = std::move(one);
      }
    }
  }
}

}  // namespace stretto::cli
