// SPDX-License-Identifier: Apache-2.0
#pragma once
// The comment of a message, field or value, in parts. Pure.
//
// Lines of a paragraph are joined; lines indented by two blanks or more are kept as they are. The
// sentences "Required." and "Default ..." and the lines after "Example:" become fields of their
// own.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace stretto::cli {

struct Comment {
  struct Block {
    bool verbatim = false;  // lines, each without its indentation and with a newline
    std::string text;
  };
  std::vector<Block> blocks;
  bool required = false;
  std::string default_value;          // "0.1 * learning_rate"; empty when the comment names none
  std::string range;                  // of a field of a job spec: "1 to 256"
  std::string only_for;               // "family llama"; empty: for all
  std::vector<std::string> examples;  // YAML, lines of a job file

  // Returns its paragraphs as one line, for tables.
  std::string Line() const;
};

// `text` is in the form of Protobuf's source info: without slashes, a blank before each line.
Comment ParseComment(absl::string_view text);

}  // namespace stretto::cli
