// SPDX-License-Identifier: Apache-2.0
#pragma once
// One line at the bottom of the output that is rewritten, and lines that scroll above it.

#include <string>

#include "coordinator/cli/base/terminal.h"

namespace stretto::cli {

// One thread. Without a live terminal there is no bottom line, only the others.
class LiveLine {
 public:
  explicit LiveLine(Terminal& terminal) : terminal_(terminal) {}

  // Replaces the bottom line; cut to the terminal's width.
  void Rewrite(const std::string& text);
  // Prints a permanent line.
  void Line(const std::string& text);
  // Prints a permanent message to stderr.
  void Message(const std::string& text);
  void Clear();

 private:
  Terminal& terminal_;
  bool shown_ = false;
};

}  // namespace stretto::cli
