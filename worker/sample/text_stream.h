// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tokens to text as they come.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/data/text/tokenizer.h"

namespace stretto {

// What Add and Finish return, one after the other, is the text of the tokens that were added, as it
// follows on that of `before`: whole characters only, bytes that are no UTF-8 as U+FFFD.
class TextStream {
 public:
  // `tokenizer` is borrowed.
  TextStream(const Tokenizer& tokenizer, absl::Span<const int32_t> before);

  // Errors: those of Tokenizer::Decode.
  absl::StatusOr<std::string> Add(int32_t token);
  // What is left, half a character as U+FFFD.
  absl::StatusOr<std::string> Finish();

 private:
  absl::Status TakePending(bool all);
  // What `tokens` add to the text of shown_.
  absl::StatusOr<std::string> TextAfterShown(absl::Span<const int32_t> tokens) const;

  const Tokenizer& tokenizer_;
  // Text depends on the tokens in front: SentencePiece drops a space at the beginning of what it
  // decodes, and puts bytes together to characters.
  std::vector<int32_t> shown_, pending_;
  std::string bytes_;  // of the text, not given out yet
};

}  // namespace stretto
