// SPDX-License-Identifier: Apache-2.0
#pragma once
// The commands of a program as plain data, from which help texts, the man page, the reference and
// shell completion are made.

#include <map>
#include <string>
#include <vector>

namespace stretto {

// The kind of a value, and so how a shell completes it: FILE, DIR, PATH, PREFIX, FOLDER and MODEL
// are files; JOB, WORKER, CONTEXT, STATE and FIELD are names; one of a few words
// ("table|json|yaml"); or any other word for free text.
using ValueKind = std::string;

struct FlagInfo {
  std::vector<std::string> names = {};  // as typed: "-o", "--output"; an argument has one name
  ValueKind value = "";                 // empty: takes no value
  std::string help = "";
  std::string default_value = "";
  bool required = false;
  bool repeats = false;
};

struct CommandInfo {
  std::string name;  // the last word
  std::string path;  // all words: "stretto job submit"
  std::string help = "";
  std::vector<std::string> examples = {};  // whole command lines
  std::vector<FlagInfo> flags = {};        // without --help
  std::vector<FlagInfo> arguments = {};    // in order
  std::vector<CommandInfo> commands = {};
  bool apart = false;  // it does not take the flags of the commands above it
};

}  // namespace stretto
