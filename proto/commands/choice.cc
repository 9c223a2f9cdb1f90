// SPDX-License-Identifier: Apache-2.0
#include "proto/commands/choice.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/base/nearest_name.h"

namespace stretto {

namespace {

// The refusal of a word that is none of the choices; empty if it is one.
std::string RefusalOf(const std::string& word, const std::vector<std::string>& choices) {
  if (std::count(choices.begin(), choices.end(), word) > 0) return "";
  const std::string near = NearestName(word, choices);
  return absl::StrCat("found \"", word, "\", expected one of: ", absl::StrJoin(choices, ", "),
                      near.empty() ? "" : absl::StrCat("; did you mean \"", near, "\"?"));
}

}  // namespace

void Choice(CLI::Option* option, const std::string& words) {
  const std::vector<std::string> choices = absl::StrSplit(words, '|');
  option->type_name(words)->check(
      CLI::Validator([choices](std::string& word) { return RefusalOf(word, choices); }, ""));
}

void Choices(CLI::Option* option, const std::string& type, const std::vector<std::string>& words) {
  option->type_name(type)->delimiter(',')->allow_extra_args(false)->check(CLI::Validator(
      [words](std::string& word) { return RefusalOf(absl::AsciiStrToLower(word), words); }, ""));
}

CLI::Option* AddFormat(CLI::App* command, std::string* format) {
  CLI::Option* option = command->add_option("-o,--format", *format, "output format");
  Choice(option, "table|json|yaml");
  return option;
}

OutputFormat FormatOf(const std::string& word) {
  return word == "json"   ? OutputFormat::kJson
         : word == "yaml" ? OutputFormat::kYaml
                          : OutputFormat::kTable;
}

CLI::Option* AddOutput(CLI::App* command, std::string* file, const std::string& type,
                       const std::string& help) {
  return command->add_option("-f,--output", *file, help)->type_name(type);
}

}  // namespace stretto
