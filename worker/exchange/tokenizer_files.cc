// SPDX-License-Identifier: Apache-2.0
#include "worker/exchange/tokenizer_files.h"

#include <filesystem>

#include "worker/exchange/model_source.h"

namespace stretto {

std::vector<std::string> TokenizerFilesIn(const std::string& folder) {
  std::vector<std::string> found;
  for (const char* name : kTokenizerFiles) {
    std::error_code ignored;
    const std::filesystem::path path = std::filesystem::absolute(folder, ignored) / name;
    if (std::filesystem::is_regular_file(path, ignored)) found.push_back(path.string());
  }
  return found;
}

}  // namespace stretto
