// SPDX-License-Identifier: Apache-2.0
#pragma once
// The files that a tokenizer is made of. `data prepare` keeps them in the folder PREFIX.tokenizer,
// so that they can travel with the weights.

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace stretto {

// Of the files beside a Hugging Face model, those that are its tokenizer's. They travel with the
// weights: into checkpoints, and out again with an export.
inline constexpr const char* kTokenizerFiles[] = {
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "chat_template.jinja",
};

struct TokenizerFile {
  std::string path;
  std::string name;  // of kTokenizerFiles
};

// Copies the files, durably, into PREFIX.tokenizer.tmp. Errors: those of ErrnoStatus.
absl::Status StageTokenizerFiles(const std::string& prefix,
                                 const std::vector<TokenizerFile>& files);

// Moves what was staged into PREFIX.tokenizer. Errors: those of ErrnoStatus.
absl::Status CommitTokenizerFiles(const std::string& prefix);

// Removes kTokenizerFiles from PREFIX.tokenizer, and the folder if nothing else is in it.
absl::Status RemoveTokenizerFiles(const std::string& prefix);

}  // namespace stretto
