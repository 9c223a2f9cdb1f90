// SPDX-License-Identifier: Apache-2.0
#pragma once
// A line of a picture: cut at the screen's edge, coloured where colours are wanted. Pure.

#include <string>

#include "absl/strings/string_view.h"

namespace stretto::cli {

// ANSI codes of text; kPlain is as the terminal has it.
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

  // One column a code point; what is beyond the edge is dropped, and so are control characters.
  TextLine& Add(absl::string_view text, Ink ink = Ink::kPlain);
  // Blanks, so that `columns` remain until the edge.
  TextLine& FillUntil(int columns);
  int left() const { return left_; }
  const std::string& text() const { return text_; }

 private:
  int left_;
  bool color_;
  std::string text_;
};

// Columns of `text`.
int Columns(absl::string_view text);

}  // namespace stretto::cli
