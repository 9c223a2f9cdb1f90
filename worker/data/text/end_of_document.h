// SPDX-License-Identifier: Apache-2.0
#pragma once
// The token that ends a document, according to the files of a Hugging Face folder.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/text/tokenizer_json.h"

namespace stretto {

// Returns the text of the token from the first of these that gives it, beside the tokenizer.json at
// `path`: eos_token of tokenizer_config.json, of special_tokens_map.json; eos_token_id (of a list,
// the first) of config.json, of generation_config.json; and last the one that `transformers` uses
// for GPT-2, if it is among the added tokens. Empty if none gives it. Errors: those of ReadFile
// except NotFound, InvalidArgument (not a JSON object; the id of no added token).
absl::StatusOr<std::string> EndOfDocumentBeside(const std::string& path,
                                                const std::vector<AddedToken>& added);

}  // namespace stretto
