// SPDX-License-Identifier: Apache-2.0
#pragma once
// tokenizer.json of Hugging Face `tokenizers`, as far as byte-level BPE needs it: the kinds of
// GPT-2 (pre-tokenizer ByteLevel) and of Llama 3 (Split by a regular expression, then ByteLevel).

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/text/byte_pair_model.h"

namespace stretto {

// What ByteLevel splits by where it says use_regex (tokenizers, pre_tokenizers/byte_level.rs), and
// the expression in Llama 3's tokenizer.json.
inline constexpr char kGpt2Words[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr char kLlama3Words[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct AddedToken {
  std::string text;
  int32_t token = 0;
};

struct TokenizerJson {
  BytePairModel::Vocabulary vocabulary;  // of bytes, no longer in the byte-level alphabet
  int32_t vocab_size = 0;                // one past the largest token, added ones included
  std::vector<AddedToken> added;         // found in text before anything else
  std::string word_pattern;              // words are its matches and what lies between them
  bool add_prefix_space = false;         // text that does not begin with a space gets one
};

// Post-processors and decoders are not read: documents are encoded without special tokens. Errors:
// InvalidArgument, naming the key, what was found and what is expected. What would change tokens
// and is not implemented (normalizers, byte fallback, dropout, ...) is refused.
absl::StatusOr<TokenizerJson> ParseTokenizerJson(absl::string_view text);

}  // namespace stretto
