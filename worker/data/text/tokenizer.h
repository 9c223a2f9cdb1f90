// SPDX-License-Identifier: Apache-2.0
#pragma once
// Converts text to tokens. Only programs without Protobuf link this (stretto-data, stretto-model):
// libsentencepiece contains one that must not meet ours in one process.

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
  // The files of the tokenizer; none for bytes.
  virtual std::vector<TokenizerFile> files() const { return {}; }
  // Returns tokens without an end of document. Errors: InvalidArgument (text that the model cannot
  // encode).
  virtual absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text) const = 0;
  // Returns the text of tokens without ends of documents; it may end in an incomplete UTF-8
  // character. Errors: InvalidArgument (a token outside [0, vocab_size)).
  virtual absl::StatusOr<std::string> Decode(absl::Span<const int32_t> tokens) const = 0;
  // Returns whether text that is cut between these two bytes encodes to the same tokens as the
  // uncut text. False is always safe.
  virtual bool CanCut(char before, char after) const = 0;
};

// One token per byte; 256 ends a document; the vocabulary has 257 tokens.
std::unique_ptr<Tokenizer> MakeByteTokenizer();

// Loads a SentencePiece model file; its </s> ends a document. Errors: NotFound and the like (file),
// InvalidArgument (not a model, or one without </s>).
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadSentencePieceTokenizer(const std::string& path);

// Loads byte-level BPE from a tokenizer.json (see tokenizer_json.h). If `end_of_document` is empty,
// the files beside it define the end of a document (end_of_document.h). Tokens equal those of
// `tokenizers` without special tokens at beginning and end (but see pattern.h on U+180E); the text
// of an added token is encoded as that token. Errors: NotFound and the like (file), InvalidArgument
// (names file, key, found and expected; when encoding, text that is not UTF-8, with the byte).
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadBytePairTokenizer(
    const std::string& path, const std::string& end_of_document);

// Loads a tokenizer by its name on command lines: "bytes", "sentencepiece:MODEL", "hf:FOLDER" or
// "hf:TOKENIZER_JSON". `end_of_document` is that of LoadBytePairTokenizer, and only for hf:.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeTokenizer(absl::string_view name,
                                                         const std::string& end_of_document);

}  // namespace stretto
