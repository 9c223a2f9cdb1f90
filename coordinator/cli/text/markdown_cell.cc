// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/text/markdown_cell.h"

#include "absl/strings/str_replace.h"

namespace stretto::cli {

std::string MarkdownCell(const std::string& text) {
  return absl::StrReplaceAll(text, {{"|", "\\|"}, {"<", "&lt;"}, {"\n", " "}});
}

}  // namespace stretto::cli
