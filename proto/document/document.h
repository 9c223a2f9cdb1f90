// SPDX-License-Identifier: Apache-2.0
#pragma once
// What programs print with `-o json` and `-o yaml`: one document in two syntaxes. Keys, their
// order, numbers and words are the same in both.

#include <nlohmann/json.hpp>
#include <string>

namespace stretto {

// A value of `-o`. A table is for people; each command draws its own.
enum class OutputFormat { kTable, kJson, kYaml };

using Document = nlohmann::ordered_json;

// Returns the document as JSON and a line break: on one line, or with a line for each field if
// `pretty`. A number that is not finite is "NaN", "Infinity" or "-Infinity". Bytes that are not
// UTF-8 are replaced.
std::string JsonText(const Document& document, bool pretty);

// Returns the document as YAML, which readers of YAML 1.1 and 1.2 understand alike: text is quoted
// where one of them would read it as something else. Text of several lines is a literal block.
std::string YamlText(const Document& document);

// Returns the whole answer of a command. `format` must not be kTable.
std::string TextOf(const Document& document, OutputFormat format);
// Returns one of the documents of a stream: a line of JSON, or YAML after a line "---".
std::string StreamText(const Document& document, OutputFormat format);

}  // namespace stretto
