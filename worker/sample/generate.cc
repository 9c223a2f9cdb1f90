// SPDX-License-Identifier: Apache-2.0
#include "worker/sample/generate.h"

#include <vector>

#include "proto/base/check.h"
#include "proto/base/status_macros.h"

namespace stretto {

const char* NameOf(Ending ending) {
  switch (ending) {
    case Ending::kTokens:
      return "tokens";
    case Ending::kEndToken:
      return "end_of_document";
    case Ending::kSequenceLength:
      return "sequence_length";
  }
  STRETTO_CHECK(false);
  return "";
}

absl::StatusOr<Ending> Generate(Decoder& decoder, absl::Span<const int32_t> prompt,
                                const GenerateOptions& options,
                                absl::FunctionRef<absl::Status(int32_t token)> next) {
  STRETTO_CHECK(!prompt.empty() && options.choices > 0 &&
                options.choices <= decoder.model().vocab_size);
  std::vector<float> logits(decoder.model().vocab_size);
  int32_t token = 0;
  for (int64_t count = 0; count < options.tokens; ++count) {
    if (decoder.position() == decoder.model().sequence_length) return Ending::kSequenceLength;
    RETURN_IF_ERROR(decoder.Append(count == 0 ? prompt : absl::MakeConstSpan(&token, 1),
                                   absl::MakeSpan(logits)));
    const auto of_choices = absl::MakeConstSpan(logits).first(options.choices);
    ASSIGN_OR_RETURN(token, ChooseToken(of_choices, decoder.position(), options.choice));
    if (token == options.end_token) return Ending::kEndToken;
    RETURN_IF_ERROR(next(token));
  }
  return Ending::kTokens;
}

}  // namespace stretto
