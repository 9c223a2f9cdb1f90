// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace stretto {

// Those of kTokenizerFiles that lie in the folder, as absolute paths.
std::vector<std::string> TokenizerFilesIn(const std::string& folder);

}  // namespace stretto
