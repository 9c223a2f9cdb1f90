// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tables in Markdown.

#include <string>

namespace stretto::cli {

// `text` as a cell of a table.
std::string MarkdownCell(const std::string& text);

}  // namespace stretto::cli
