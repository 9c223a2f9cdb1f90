// SPDX-License-Identifier: Apache-2.0
#pragma once
// Generates tokens after a prompt.

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/sample/decoder.h"
#include "worker/sample/token_chooser.h"

namespace stretto {

struct GenerateOptions {
  int64_t tokens = 0;         // maximum number
  ChoiceOptions choice = {};  // must satisfy Validate
  int32_t choices = 0;        // only tokens in [0, choices) are chosen
  int32_t end_token = -1;     // ends the text without being part of it; -1: none
};

// The reason why generation ended.
enum class Ending : uint8_t { kTokens, kEndToken, kSequenceLength };
const char* NameOf(Ending ending);  // "tokens", "end_of_document", "sequence_length"

// Appends `prompt`, at least one token, to the decoder's prefix and calls `next` with each
// generated token; an error from it ends the generation. Errors: those of Decoder::Append, of
// ChooseToken and of `next`.
absl::StatusOr<Ending> Generate(Decoder& decoder, absl::Span<const int32_t> prompt,
                                const GenerateOptions& options,
                                absl::FunctionRef<absl::Status(int32_t token)> next);

}  // namespace stretto
