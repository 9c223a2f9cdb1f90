// SPDX-License-Identifier: Apache-2.0
#pragma once
// Flags whose value is one of a few words, and the flag that is such a flag everywhere: -o.

#include <string>
#include <vector>

#include "proto/document/document.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace stretto {

// Lets an option take one of the words of "table|json|yaml". A refusal suggests the nearest.
void Choice(CLI::Option* option, const std::string& words);

// Lets an option take several of these words, separated by commas, in any case. `type` names them
// in the help.
void Choices(CLI::Option* option, const std::string& type, const std::vector<std::string>& words);

// Adds `-o, --format` for a command that prints an answer. `format` must outlive the parsing.
CLI::Option* AddFormat(CLI::App* command, std::string* format);
// Returns the format of one of its words.
OutputFormat FormatOf(const std::string& word);

// Adds `-f, --output FILE`, or what else `type` says, for a command that writes files.
CLI::Option* AddOutput(CLI::App* command, std::string* file, const std::string& type,
                       const std::string& help);

}  // namespace stretto
