// SPDX-License-Identifier: Apache-2.0
#pragma once
// Converts tokens to text as they are generated.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/data/text/tokenizer.h"

namespace stretto {

// The results of Add and Finish, joined, are the text of the added tokens as a continuation of the
// text of `before`. They consist of complete characters; bytes that are not UTF-8 are U+FFFD.
class TextStream {
 public:
  // `tokenizer` is borrowed.
  TextStream(const Tokenizer& tokenizer, absl::Span<const int32_t> before);

  // Errors: those of Tokenizer::Decode.
  absl::StatusOr<std::string> Add(int32_t token);
  // Returns the remaining text; an incomplete character is U+FFFD.
  absl::StatusOr<std::string> Finish();

 private:
  absl::Status TakePending(bool all);
  // Returns the text that `tokens` add after that of shown_.
  absl::StatusOr<std::string> TextAfterShown(absl::Span<const int32_t> tokens) const;

  const Tokenizer& tokenizer_;
  // The text of tokens depends on earlier ones: SentencePiece drops a space at the beginning of
  // what it decodes, and combines bytes into characters.
  std::vector<int32_t> shown_, pending_;
  std::string bytes_;  // text that has not been returned yet
};

}  // namespace stretto
