// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/screen/text_line.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/base/printable.h"

namespace stretto::cli {
namespace {

bool Continues(char c) { return (c & 0xC0) == 0x80; }  // a code point of UTF-8

}  // namespace

TextLine& TextLine::Add(absl::string_view text, Ink ink) {
  size_t end = 0;
  for (; end < text.size() && (left_ > 0 || Continues(text[end])); ++end) {
    if (!Continues(text[end])) --left_;
  }
  if (end == 0) return *this;
  std::string part = Printable(text.substr(0, end));
  std::replace_if(
      part.begin(), part.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  if (color_ && ink != Ink::kPlain) {
    absl::StrAppend(&text_, "\x1b[", static_cast<int>(ink), "m", part, "\x1b[0m");
  } else {
    text_ += part;
  }
  return *this;
}

TextLine& TextLine::FillUntil(int columns) {
  if (left_ > columns) Add(std::string(left_ - columns, ' '));
  return *this;
}

int Columns(absl::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return !Continues(c); });
}

}  // namespace stretto::cli
