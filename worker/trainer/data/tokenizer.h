#pragma once
// Text to tokens, and the note beside a data set that says which tokenizer made it.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stretto {

struct TokenizerInfo {
  std::string kind;             // "bytes" or "sentencepiece"
  int32_t vocab_size = 0;       // tokens are in [0, vocab_size)
  int32_t end_of_document = 0;  // appended to every document
  std::string hash;             // SHA-256 of the model file in hexadecimal; of the kind for "bytes"

  bool operator==(const TokenizerInfo&) const = default;
};

// Immutable and thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual const TokenizerInfo& info() const = 0;
  // Without the end of document. Errors: InvalidArgument (a text the model cannot encode).
  virtual absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text) const = 0;
};

// One token per byte; 256 ends a document; vocabulary 257.
std::unique_ptr<Tokenizer> MakeByteTokenizer();

// A SentencePiece model file; its </s> ends a document. Errors: NotFound and the like (file),
// InvalidArgument (no model, or one without </s>).
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadSentencePieceTokenizer(const std::string& path);

// PREFIX.tokenizer.json, written atomically and read strictly: every field and no other. Errors of
// reading: NotFound, InvalidArgument (names file, found and expected).
absl::Status WriteTokenizerInfo(const std::string& prefix, const TokenizerInfo& info);
absl::StatusOr<TokenizerInfo> ReadTokenizerInfo(const std::string& prefix);

}  // namespace stretto
