// SPDX-License-Identifier: Apache-2.0
#pragma once
// f32 into the types that weights are written in.

#include <cstdint>
#include <optional>
#include <span>

#include "absl/strings/string_view.h"

namespace stretto {

// Rounds to nearest even into `out`, an array of `dtype` (F32, BF16 or F16). The index of the first
// finite value that is too great for it, if there is one; what is not finite stays so.
std::optional<int64_t> NarrowTo(absl::string_view dtype, std::span<const float> values, void* out);

uint16_t ToF16(float value);

}  // namespace stretto
