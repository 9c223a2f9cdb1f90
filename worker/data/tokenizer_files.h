// SPDX-License-Identifier: Apache-2.0
#pragma once
// The files of a tokenizer. `data prepare` keeps them in the folder PREFIX.tokenizer, so that they
// can accompany the weights.

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace stretto {

// The files beside a Hugging Face model that belong to its tokenizer. They accompany the weights
// into checkpoints and exports.
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
  std::string name;  // one of kTokenizerFiles
};

// Copies the files durably to PREFIX.tokenizer.tmp. Errors: those of ErrnoStatus.
absl::Status StageTokenizerFiles(const std::string& prefix,
                                 const std::vector<TokenizerFile>& files);

// Moves the staged files to PREFIX.tokenizer. Errors: those of ErrnoStatus.
absl::Status CommitTokenizerFiles(const std::string& prefix);

// Removes kTokenizerFiles from PREFIX.tokenizer, and the folder if it is then empty.
absl::Status RemoveTokenizerFiles(const std::string& prefix);

}  // namespace stretto
