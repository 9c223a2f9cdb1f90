// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/text/table.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proto/base/printable.h"

namespace stretto::cli {
namespace {

// Display width: bytes that do not continue a UTF-8 sequence.
size_t Width(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

}  // namespace

std::string Table(const std::vector<std::string>& headings,
                  std::vector<std::vector<std::string>> rows) {
  for (auto& row : rows) {
    for (std::string& cell : row) cell = Escaped(cell);
  }
  std::vector<std::string> names;
  std::vector<bool> right;
  for (const std::string& heading : headings) {
    right.push_back(!heading.empty() && heading[0] == '>');
    names.push_back(right.back() ? heading.substr(1) : heading);
  }
  std::vector<size_t> widths(names.size(), 0);
  const auto measure = [&](const std::vector<std::string>& row) {
    for (size_t i = 0; i < names.size() && i < row.size(); ++i) {
      widths[i] = std::max(widths[i], Width(row[i]));
    }
  };
  measure(names);
  for (const auto& row : rows) measure(row);

  std::string out;
  const auto add = [&](const std::vector<std::string>& row) {
    std::string line;
    for (size_t i = 0; i < names.size(); ++i) {
      const std::string& cell = i < row.size() ? row[i] : "";
      const std::string blanks(widths[i] - Width(cell), ' ');
      absl::StrAppend(&line, i == 0 ? "" : "  ", right[i] ? blanks : "", cell,
                      right[i] ? "" : blanks);
    }
    absl::StripTrailingAsciiWhitespace(&line);
    absl::StrAppend(&out, line, "\n");
  };
  add(names);
  for (const auto& row : rows) add(row);
  return out;
}

}  // namespace stretto::cli
