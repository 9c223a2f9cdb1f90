// SPDX-License-Identifier: Apache-2.0
#pragma once
// The configuration files of an export, in the keys of `transformers`.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

// The token ids that generation needs.
struct SpecialTokens {
  std::optional<int64_t> bos, eos;
};

// Reads the ids from the tokenizer's files (absolute paths). An id that they do not define, or that
// is outside the vocabulary, is unknown.
SpecialTokens SpecialTokensOf(const std::vector<std::string>& tokenizer_files, int vocab_size);

// config.json, in a form that transformers 4.45 and 5 both read. dtype: as in safetensors.
std::string HfConfigText(const ModelSpec& model, absl::string_view dtype,
                         const SpecialTokens& tokens);

// generation_config.json; empty if there is nothing to put in it.
std::string GenerationConfigText(const SpecialTokens& tokens);

}  // namespace stretto
