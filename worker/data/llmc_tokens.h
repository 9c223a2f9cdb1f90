// SPDX-License-Identifier: Apache-2.0
#pragma once
// Token files of llm.c (dev/data/data_common.py): a header of 256 i32, of which the first three are
// magic, version and number of tokens, then the tokens.
//   20240520, 1: u16, the tokenizer of GPT-2    20240801, 7: u32, that of Llama 3
// Documents are not indexed: each begins with a token that the writer adds, 50256 (<|endoftext|>)
// or 128000 (<|begin_of_text|>). A document may continue in the next file.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/data/token_stream.h"

namespace stretto {

// Several files, read as one stream in the given order.
class LlmcTokens final : public TokenStream {
 public:
  // Needs at least one path; `name` is the stream's. Errors: NotFound and the like, InvalidArgument
  // (malformed, empty, or not of the first file's version; names file, byte offset, found and
  // expected).
  static absl::StatusOr<LlmcTokens> Open(std::string name, const std::vector<std::string>& paths);

  const std::string& name() const override { return name_; }
  TokenType type() const override { return files_[0].type; }
  int64_t token_count() const override { return starts_.back(); }
  // Reads the tokens from `begin` to the document.
  int64_t FindDocument(int64_t begin, int64_t end) const override;
  absl::Status Read(int64_t begin, int32_t vocab_size, std::span<int32_t> out) const override;

 private:
  explicit LlmcTokens(std::string name) : name_(std::move(name)) {}

  std::string name_;
  std::vector<TokenFile> files_;
  std::vector<int64_t> starts_ = {0};  // position of each file's first token, and of the end
};

}  // namespace stretto
