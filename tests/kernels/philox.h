// SPDX-License-Identifier: Apache-2.0
#pragma once
// Philox4x32-10 (Salmon et al. 2011) word by word: what the vectorised draws must give.

#include <array>
#include <cstdint>

namespace stretto {

using PhiloxWords = std::array<uint32_t, 4>;

inline PhiloxWords Philox(PhiloxWords counter, uint32_t key_low, uint32_t key_high) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xD2511F53} * counter[0];
    const uint64_t second = uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<uint32_t>(second >> 32) ^ counter[1] ^ key_low, static_cast<uint32_t>(second),
        static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key_high, static_cast<uint32_t>(first)};
    key_low += 0x9E3779B9;
    key_high += 0xBB67AE85;
  }
  return counter;
}

}  // namespace stretto
