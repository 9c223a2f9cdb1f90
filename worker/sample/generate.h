// SPDX-License-Identifier: Apache-2.0
#pragma once
// A prompt, then token after token.

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/sample/decoder.h"
#include "worker/sample/token_chooser.h"

namespace stretto {

struct GenerateOptions {
  int64_t tokens = 0;         // at most so many
  ChoiceOptions choice = {};  // Validate()d
  int32_t choices = 0;        // tokens in [0, choices) alone are chosen
  int32_t end_token = -1;     // ends the text, and is not part of it; -1: none
};

// Why no more tokens came.
enum class Ending : uint8_t { kTokens, kEndToken, kSequenceLength };
const char* NameOf(Ending ending);  // "tokens", "end_of_document", "sequence_length"

// Appends `prompt`, at least one token, to the decoder's prefix and calls `next` with each token
// that follows; an error that it returns ends everything. Errors: those of Decoder::Append, of
// ChooseToken and of `next`.
absl::StatusOr<Ending> Generate(Decoder& decoder, absl::Span<const int32_t> prompt,
                                const GenerateOptions& options,
                                absl::FunctionRef<absl::Status(int32_t token)> next);

}  // namespace stretto
