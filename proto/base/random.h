// SPDX-License-Identifier: Apache-2.0
#pragma once
// Counter-based random numbers (Philox4x32-10; Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC11, section 3). A draw is a pure function of a key and a counter, so weights, dropout
// and shuffles are equal for every schedule, slicing and TP size (DESIGN section 4, Randomness).

#include <array>
#include <cstdint>

namespace stretto {

// Returns four independent 32-bit draws for (key, counter).
constexpr std::array<uint32_t, 4> Philox(uint64_t key, uint64_t counter_low,
                                         uint64_t counter_high) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  std::array<uint32_t, 4> c = {
      static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
      static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

// Maps one 32-bit draw to a uniform value in [0, 1) with 24 bits.
constexpr float ToUniform(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

}  // namespace stretto
