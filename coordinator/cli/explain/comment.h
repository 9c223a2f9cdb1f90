// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the comment of a message, field or value says, in parts. Pure.
//
// Lines of a paragraph are joined; lines indented by two blanks or more stay as they are. The
// sentences "Required." and "Default ..." are taken out, and so are the lines below "Example:".

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

  // Its paragraphs, each one line, joined by blanks; for tables.
  std::string Line() const;
};

// `text` as Protobuf's source info has it: without slashes, a blank before each line.
Comment ParseComment(absl::string_view text);

}  // namespace stretto::cli
