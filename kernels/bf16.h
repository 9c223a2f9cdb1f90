// SPDX-License-Identifier: Apache-2.0
#pragma once
// bfloat16 storage: the upper half of an f32. Converting down rounds to nearest even; NaN stays
// NaN.

#include <bit>
#include <cstdint>

namespace stretto {

struct BF16 {
  uint16_t bits;
};

constexpr float ToFloat(BF16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}
constexpr float ToFloat(float value) { return value; }

constexpr BF16 ToBF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16)};
}

template <class T>
constexpr T FromFloat(float value) {
  if constexpr (sizeof(T) == 2) {
    return ToBF16(value);
  } else {
    return value;
  }
}

}  // namespace stretto
