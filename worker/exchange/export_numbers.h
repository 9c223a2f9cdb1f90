// SPDX-License-Identifier: Apache-2.0
#pragma once
// Converts f32 to the types in which weights are written.

#include <cstdint>
#include <optional>
#include <span>

#include "absl/strings/string_view.h"

namespace stretto {

// Rounds to nearest even into `out`, an array of `dtype` (F32, BF16 or F16). Returns the index of
// the first finite value that is too large for the type, if any; non-finite values are kept.
std::optional<int64_t> NarrowTo(absl::string_view dtype, std::span<const float> values, void* out);

uint16_t ToF16(float value);

}  // namespace stretto
