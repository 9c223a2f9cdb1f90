// SPDX-License-Identifier: Apache-2.0
#pragma once
// Converts stored numbers to f32, exactly.

#include <cstdint>
#include <cstring>

namespace stretto {

inline float FloatOfBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline float FloatOfBf16(uint16_t bits) { return FloatOfBits(uint32_t{bits} << 16); }

// IEEE 754 binary16.
inline float FloatOfF16(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16, exponent = (bits >> 10) & 0x1f;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24
    const float value = static_cast<float>(fraction) * 0x1p-24f;
    return sign == 0 ? value : -value;
  }
  const uint32_t wide = exponent == 0x1f ? 0xffu : exponent + 112;
  return FloatOfBits(sign | wide << 23 | fraction << 13);
}

}  // namespace stretto
