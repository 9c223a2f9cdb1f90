// SPDX-License-Identifier: Apache-2.0
#pragma once
// A line of a picture: cut at the edge of the screen and coloured if colours are wanted. Pure.

#include <string>

#include "absl/strings/string_view.h"

namespace stretto::cli {

// ANSI codes of text; kPlain is the terminal's default.
enum class Ink {
  kPlain = 0,
  kBold = 1,
  kRed = 31,
  kGreen,
  kYellow,
  kBlue,
  kMagenta,
  kCyan,
  kGray = 90
};

class TextLine {
 public:
  TextLine(int width, bool color) : left_(width), color_(color) {}

  // Adds text; each code point takes one column. Drops control characters and whatever is beyond
  // the edge.
  TextLine& Add(absl::string_view text, Ink ink = Ink::kPlain);
  // Adds blanks until `columns` are left before the edge.
  TextLine& FillUntil(int columns);
  int left() const { return left_; }
  const std::string& text() const { return text_; }

 private:
  int left_;
  bool color_;
  std::string text_;
};

// Returns the number of columns of `text`.
int Columns(absl::string_view text);

}  // namespace stretto::cli
