// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace stretto {

// Returns the absolute paths of the kTokenizerFiles in the folder.
std::vector<std::string> TokenizerFilesIn(const std::string& folder);

}  // namespace stretto
