// SPDX-License-Identifier: Apache-2.0
#pragma once
// The token that ends a document, as a Hugging Face folder says it.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/text/tokenizer_json.h"

namespace stretto {

// Its text, by what lies beside the tokenizer.json at `path`; the first that says it: eos_token of
// tokenizer_config.json, of special_tokens_map.json; eos_token_id (a list: its first) of
// config.json, of generation_config.json; else the one that `transformers` takes for GPT-2, if it
// is among the added tokens. Empty: nothing says it. Errors: those of ReadFile but NotFound,
// InvalidArgument (no JSON object; an id of no added token).
absl::StatusOr<std::string> EndOfDocumentBeside(const std::string& path,
                                                const std::vector<AddedToken>& added);

}  // namespace stretto
