// SPDX-License-Identifier: Apache-2.0
#pragma once
// What lies in the folder of a tokenizer's file.

#include <string>
#include <vector>

#include "worker/data/tokenizer_files.h"

namespace stretto {

// Path of another file in the same folder.
std::string Beside(const std::string& path, const std::string& name);

// The file itself, which is to be called `name`, and those of kTokenizerFiles that lie beside it.
std::vector<TokenizerFile> WithFilesBeside(const std::string& path, const std::string& name);

}  // namespace stretto
