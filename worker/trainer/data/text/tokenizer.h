#pragma once
// Text to tokens. Only stretto-data links this: libsentencepiece brings a Protobuf of its own that
// must not meet ours in one process.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/data/tokenizer_info.h"

namespace stretto {

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

}  // namespace stretto
