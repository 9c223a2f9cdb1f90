// SPDX-License-Identifier: Apache-2.0
#pragma once
// Text to tokens. Only programs without Protobuf link this (stretto-data, stretto-model):
// libsentencepiece brings one of its own that must not meet ours in one process.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/data/tokenizer_files.h"
#include "worker/data/tokenizer_info.h"

namespace stretto {

// Immutable and thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual const TokenizerInfo& info() const = 0;
  // That it is made of; none for bytes.
  virtual std::vector<TokenizerFile> files() const { return {}; }
  // Without the end of document. Errors: InvalidArgument (a text the model cannot encode).
  virtual absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text) const = 0;
  // The text of tokens, ends of documents left out; it need not be whole UTF-8. Errors:
  // InvalidArgument (a token outside [0, vocab_size)).
  virtual absl::StatusOr<std::string> Decode(absl::Span<const int32_t> tokens) const = 0;
  // Whether text cut between these two bytes encodes to the same tokens as in one. False is safe.
  virtual bool CanCut(char before, char after) const = 0;
};

// One token per byte; 256 ends a document; vocabulary 257.
std::unique_ptr<Tokenizer> MakeByteTokenizer();

// A SentencePiece model file; its </s> ends a document. Errors: NotFound and the like (file),
// InvalidArgument (no model, or one without </s>).
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadSentencePieceTokenizer(const std::string& path);

// Byte-level BPE from a tokenizer.json (see tokenizer_json.h); without `end_of_document` what the
// files beside it say (end_of_document.h) ends a document. Equal to `tokenizers` without special
// tokens at beginning and end (but see pattern.h on U+180E); an added token that stands in
// the text is that token. Errors: NotFound and the like (file), InvalidArgument (names file, key,
// found and expected; when encoding, text that is no UTF-8, with the byte).
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadBytePairTokenizer(
    const std::string& path, const std::string& end_of_document);

// By the name it has on command lines: "bytes", "sentencepiece:MODEL", "hf:FOLDER" or
// "hf:TOKENIZER_JSON"; `end_of_document` as LoadBytePairTokenizer's, and for hf: alone.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeTokenizer(absl::string_view name,
                                                         const std::string& end_of_document);

}  // namespace stretto
