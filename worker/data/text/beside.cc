// SPDX-License-Identifier: Apache-2.0
#include "worker/data/text/beside.h"

#include <unistd.h>

namespace stretto {

std::string Beside(const std::string& path, const std::string& name) {
  return path.substr(0, path.rfind('/') + 1) + name;
}

std::vector<TokenizerFile> WithFilesBeside(const std::string& path, const std::string& name) {
  std::vector<TokenizerFile> files = {{path, name}};
  for (const char* other : kTokenizerFiles) {
    const std::string beside = Beside(path, other);
    if (other != name && ::access(beside.c_str(), F_OK) == 0) files.push_back({beside, other});
  }
  return files;
}

}  // namespace stretto
