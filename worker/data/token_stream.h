// SPDX-License-Identifier: Apache-2.0
#pragma once
// The interface to data that sampling, evaluation and inspection use: a stream of tokens with known
// beginnings of documents.

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "worker/data/token_file.h"

namespace stretto {

// Immutable once open, and safe to read from any thread.
class TokenStream {
 public:
  virtual ~TokenStream() = default;

  // For messages: "/data/books", "llmc:/data/fineweb/train_*.bin".
  virtual const std::string& name() const = 0;
  virtual TokenType type() const = 0;
  virtual int64_t token_count() const = 0;  // at least 1

  // Returns the position of the first token of the first document that begins in [begin, end), or
  // `end` if none does. The stream's first token begins a document. Documents without tokens do not
  // count. 0 <= begin <= end <= token_count().
  virtual int64_t FindDocument(int64_t begin, int64_t end) const = 0;

  // Copies the tokens [begin, begin + out.size()) of the stream. Errors: OutOfRange (beyond the
  // stream), InvalidArgument (a token outside [0, vocab_size); names file, byte offset, token).
  virtual absl::Status Read(int64_t begin, int32_t vocab_size, std::span<int32_t> out) const = 0;

  // Checks the values of the first `limit` tokens of the stream, or of all if there are fewer.
  // Errors: those of Read.
  absl::Status CheckTokens(int32_t vocab_size, int64_t limit) const;
};

}  // namespace stretto
