// SPDX-License-Identifier: Apache-2.0
#pragma once
// Converts config.json of a Hugging Face model to a ModelSpec.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

inline constexpr char kHfConfigName[] = "config.json";

// Supports model_type gpt2 (tanh GELU, attention scaled only by head_dim) and llama (SiLU, no
// biases, rotary positions plain, `linear` or `llama3`; written as `rope_parameters` or, before
// transformers 5, as `rope_scaling` and `rope_theta`). Unsupported features are refused; keys that
// do not change the computation (dropout, initialisation, token ids, cache) are ignored.
// sequence_length is the maximum of the model; dropout is 0. `path` names the text in errors.
// Errors: InvalidArgument (names path, key, found and expected).
absl::StatusOr<ModelSpec> ParseHfConfig(absl::string_view text, const std::string& path);

}  // namespace stretto
