// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an export says about its tensors, in the words of `transformers`.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

// Ids of a tokenizer that generation needs to know.
struct SpecialTokens {
  std::optional<int64_t> bos, eos;
};

// Read from the tokenizer's files (absolute paths) as far as they say so; an id outside the
// vocabulary counts as unknown.
SpecialTokens SpecialTokensOf(const std::vector<std::string>& tokenizer_files, int vocab_size);

// config.json, in the form that transformers 4.45 and 5 both read. dtype: as in safetensors.
std::string HfConfigText(const ModelSpec& model, absl::string_view dtype,
                         const SpecialTokens& tokens);

// generation_config.json. Empty: there is nothing to say.
std::string GenerationConfigText(const SpecialTokens& tokens);

}  // namespace stretto
