// SPDX-License-Identifier: Apache-2.0
#pragma once
// The replies of a shell at the end of a command line. Pure: the caller provides names of jobs.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "proto/commands/command_tree.h"

namespace stretto::cli {

struct Reply {
  std::string word;
  std::string help = "";  // one line
};

struct Completion {
  std::vector<Reply> replies = {};  // all begin with the last word
  bool files = false;               // the shell completes names of files instead
};

// The flags on the line and their values, by name ("--coordinator"), for a source that has to ask
// the coordinator.
using GivenFlags = std::map<std::string, std::string>;
// Returns the names of existing JOBs, WORKERs or CONTEXTs; empty if they cannot be determined.
using NameSource =
    std::function<std::vector<std::string>(const ValueKind& kind, const GivenFlags& given)>;

// `words` are those after the program's name; the last one is incomplete, perhaps empty. "=" and
// ":" may be separate words, because bash splits lines there.
Completion Complete(const CommandInfo& root, const std::vector<std::string>& words,
                    const NameSource& names);

// Returns the script with which `shell` (bash, zsh or fish) asks `stretto __complete`.
std::string CompletionScript(const std::string& shell);

}  // namespace stretto::cli
