// SPDX-License-Identifier: Apache-2.0
#pragma once
// config.json of a Hugging Face model: which of ours it is.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

inline constexpr char kHfConfigName[] = "config.json";

// model_type gpt2 (tanh GELU, attention scaled by head_dim alone) and llama (SiLU, no biases,
// rotary positions plain, `linear` or `llama3`; written as `rope_parameters` or, before
// transformers 5, as `rope_scaling` and `rope_theta`). What we do not compute is refused; keys that
// change nothing (dropout, initialisation, token ids, cache) are ignored. sequence_length is the
// longest that the model is for; dropout is 0. `path` names the text in errors. Errors:
// InvalidArgument (names path, key, found and expected).
absl::StatusOr<ModelSpec> ParseHfConfig(absl::string_view text, const std::string& path);

}  // namespace stretto
