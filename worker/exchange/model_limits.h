// SPDX-License-Identifier: Apache-2.0
#pragma once
// Applies the rules of job specs (proto/spec) to models from files that we do not trust.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

// Returns the largest value of a dimension, by its name in job specs: "layers",
// "rotary_scaling.factor".
int64_t MaxOf(absl::string_view field);

// Maximum number of heads in foreign formats, whose tensors are assembled head by head. No known
// model has this many.
inline constexpr int64_t kMaxForeignHeads = 1024;

// Checks each dimension and the relations between them. `path` names the file in errors. Errors:
// InvalidArgument.
absl::Status CheckModel(const ModelSpec& model, const std::string& path);

}  // namespace stretto
