// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rows in columns.

#include <string>
#include <vector>

namespace stretto::cli {

// Columns two blanks apart, as wide as their widest cell; a heading that starts with '>' is aligned
// to the right. Cells shorter than the heading row are blank.
std::string Table(const std::vector<std::string>& headings,
                  const std::vector<std::vector<std::string>>& rows);

}  // namespace stretto::cli
