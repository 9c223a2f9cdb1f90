// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rows in aligned columns.

#include <string>
#include <vector>

namespace stretto::cli {

// Columns are two blanks apart and as wide as their widest cell; a heading that starts with '>' is
// right-aligned. A row with fewer cells than the headings is filled with blanks. Cells may be text
// of others: what is not printable in them is escaped, so a row stays one line.
std::string Table(const std::vector<std::string>& headings,
                  std::vector<std::vector<std::string>> rows);

}  // namespace stretto::cli
