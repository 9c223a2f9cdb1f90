// SPDX-License-Identifier: Apache-2.0
#pragma once
// The commands as plain data: what help texts, the man page and shell completion are made from.

#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace stretto::cli {

// What a value is, and so how a shell completes it: FILE, DIR, JOB, WORKER, CONTEXT, one of a few
// words ("table|json|yaml"), or any other word for free text.
using ValueKind = std::string;

struct FlagInfo {
  std::vector<std::string> names = {};  // as typed: "-o", "--output"; of an argument its one name
  ValueKind value = "";                 // empty: takes none
  std::string help = "";
  std::string default_value = "";
  bool required = false;
  bool repeats = false;
};

struct CommandInfo {
  std::string name;  // the last word
  std::string path;  // all of them: "stretto job submit"
  std::string help = "";
  std::vector<std::string> examples = {};  // whole command lines
  std::vector<FlagInfo> flags = {};        // without --help
  std::vector<FlagInfo> arguments = {};    // in order
  std::vector<CommandInfo> commands = {};
};

// Reads the tree under `app`. The lines of a command's footer are its examples.
CommandInfo ReadCommands(const CLI::App& app);

}  // namespace stretto::cli
