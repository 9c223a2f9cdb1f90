// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rows in aligned columns.

#include <string>
#include <vector>

namespace stretto::cli {

// Columns are two blanks apart and as wide as their widest cell; a heading that starts with '>' is
// right-aligned. A row with fewer cells than the headings is filled with blanks.
std::string Table(const std::vector<std::string>& headings,
                  const std::vector<std::vector<std::string>>& rows);

}  // namespace stretto::cli
