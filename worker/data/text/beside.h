// SPDX-License-Identifier: Apache-2.0
#pragma once
// Other files in the folder of a tokenizer's file.

#include <string>
#include <vector>

#include "worker/data/tokenizer_files.h"

namespace stretto {

// Returns the path of another file in the same folder.
std::string Beside(const std::string& path, const std::string& name);

// Returns the file itself, under the name `name`, and those of kTokenizerFiles beside it.
std::vector<TokenizerFile> WithFilesBeside(const std::string& path, const std::string& name);

}  // namespace stretto
