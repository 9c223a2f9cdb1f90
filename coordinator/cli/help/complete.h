// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a shell may offer at the end of a command line. Pure: names of jobs come from the caller.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "coordinator/cli/help/command_tree.h"

namespace stretto::cli {

struct Reply {
  std::string word;
  std::string help = "";  // one line
};

struct Completion {
  std::vector<Reply> replies = {};  // all of which begin with the last word
  bool files = false;               // names of files instead
};

// Flags on the line and the values they were given, by name ("--coordinator"), for who has to ask
// the coordinator.
using GivenFlags = std::map<std::string, std::string>;
// The names of a JOB, WORKER or CONTEXT that exist; none when that cannot be found out.
using NameSource =
    std::function<std::vector<std::string>(const ValueKind& kind, const GivenFlags& given)>;

// `words` are those after the program's name, the last one as far as it is typed, perhaps empty.
// Words "=" and ":" of their own, at which bash cuts lines, are understood.
Completion Complete(const CommandInfo& root, const std::vector<std::string>& words,
                    const NameSource& names);

// The script that teaches `shell` (bash, zsh or fish) to ask `stretto __complete`.
std::string CompletionScript(const std::string& shell);

}  // namespace stretto::cli
