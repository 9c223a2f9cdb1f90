// SPDX-License-Identifier: Apache-2.0
#pragma once
// The only file that includes SentencePiece. Its header puts std::string_view into namespace absl,
// which clashes with our abseil, so neither side may include the other's headers: only std types
// pass.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace stretto {

// Immutable and thread-safe. Errors are text; empty means none.
class SentencePieceModel {
 public:
  // Returns null, with the reason in `error`, if `serialized` is not a model.
  static std::unique_ptr<SentencePieceModel> Parse(const std::string& serialized,
                                                   std::string* error);
  ~SentencePieceModel();

  int32_t vocab_size() const;
  int32_t end_of_document() const;  // -1: the model has none
  std::string Encode(std::string_view text, std::vector<int32_t>* tokens) const;
  // Tokens must be in [0, vocab_size).
  std::string Decode(const std::vector<int32_t>& tokens, std::string* text) const;

 private:
  explicit SentencePieceModel(std::unique_ptr<sentencepiece::SentencePieceProcessor> processor);
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
};

}  // namespace stretto
