// SPDX-License-Identifier: Apache-2.0
#pragma once
// The parts of Hugging Face's tokenizer.json that byte-level BPE needs, in the forms of GPT-2
// (pre-tokenizer ByteLevel) and of Llama 3 (Split by a regular expression, then ByteLevel).

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/text/byte_pair_model.h"

namespace stretto {

// The expression of ByteLevel with use_regex (tokenizers, pre_tokenizers/byte_level.rs), and the
// one in Llama 3's tokenizer.json.
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
  BytePairModel::Vocabulary vocabulary;  // of bytes, decoded from the byte-level alphabet
  int32_t vocab_size = 0;                // one more than the largest token, including added ones
  std::vector<AddedToken> added;         // matched in text before anything else
  std::string word_pattern;              // words are its matches and the text between them
  bool add_prefix_space = false;         // text that does not begin with a space gets one
};

// Post-processors and decoders are not read: documents are encoded without special tokens. Features
// that would change tokens and are not implemented (normalizers, byte fallback, dropout, ...) are
// refused. Errors: InvalidArgument, naming the key, what was found and what is expected.
absl::StatusOr<TokenizerJson> ParseTokenizerJson(absl::string_view text);

}  // namespace stretto
