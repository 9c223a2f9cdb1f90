// SPDX-License-Identifier: Apache-2.0
#pragma once
// A model from a file that we do not trust obeys the rules of job specs (proto/spec).

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

// The largest value of a dimension, by its name in job specs: "layers", "rotary_scaling.factor".
int64_t MaxOf(absl::string_view field);

// Heads of another's format, whose tensors are put together head by head. No known model has as
// many.
inline constexpr int64_t kMaxForeignHeads = 1024;

// What dimensions must be, each and to each other. `path` names the file in errors. Errors:
// InvalidArgument.
absl::Status CheckModel(const ModelSpec& model, const std::string& path);

}  // namespace stretto
