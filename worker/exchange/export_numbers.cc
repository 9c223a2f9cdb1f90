// SPDX-License-Identifier: Apache-2.0
#include "worker/exchange/export_numbers.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/bf16.h"
#include "proto/base/check.h"

namespace stretto {
namespace {

template <class Narrow>
std::optional<int64_t> NarrowAll(std::span<const float> values, uint16_t infinity, void* out,
                                 const Narrow& narrow) {
  std::optional<int64_t> first;
  auto* bits = static_cast<uint16_t*>(out);
  for (size_t i = 0; i < values.size(); ++i) {
    bits[i] = narrow(values[i]);
    if ((bits[i] & 0x7fff) == infinity && std::isfinite(values[i]) && !first) {
      first = static_cast<int64_t>(i);
    }
  }
  return first;
}

}  // namespace

uint16_t ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) {  // keeps NaN
    return static_cast<uint16_t>(sign | 0x7e00 | ((magnitude >> 13) & 0x3ff));
  }
  if (magnitude >= 0x47800000) return sign | 0x7c00;  // 65536 and above
  // Below 2^-14, halves are multiples of 2^-24. Adding 1/2 makes the processor round to such a
  // multiple.
  if (magnitude < 0x38800000) {
    const uint32_t rounded = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f);
    return static_cast<uint16_t>(sign | (rounded - 0x3f000000));
  }
  // Drops 13 bits of the mantissa; a carry may reach infinity.
  const uint32_t rebiased = magnitude - ((127 - 15) << 23);
  return static_cast<uint16_t>(sign | ((rebiased + 0xfff + ((rebiased >> 13) & 1)) >> 13));
}

std::optional<int64_t> NarrowTo(absl::string_view dtype, std::span<const float> values, void* out) {
  if (dtype == "BF16") {
    return NarrowAll(values, 0x7f80, out, [](float value) { return ToBF16(value).bits; });
  }
  if (dtype == "F16") return NarrowAll(values, 0x7c00, out, ToF16);
  STRETTO_CHECK(dtype == "F32");
  std::memcpy(out, values.data(), values.size_bytes());
  return std::nullopt;
}

}  // namespace stretto
