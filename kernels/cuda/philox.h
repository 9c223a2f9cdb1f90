// SPDX-License-Identifier: Apache-2.0
#pragma once
// Philox4x32-10 (Salmon et al. 2011): four random words from a counter and a key.

#include <cuda_runtime.h>

#include <cstdint>

namespace stretto::cuda {

__device__ __forceinline__ uint4 Philox(uint4 counter, uint32_t key_low, uint32_t key_high) {
  for (int round = 0; round < 10; ++round) {
    constexpr uint32_t kFirst = 0xD2511F53u, kSecond = 0xCD9E8D57u;
    counter = make_uint4(__umulhi(kSecond, counter.z) ^ counter.y ^ key_low, kSecond * counter.z,
                         __umulhi(kFirst, counter.x) ^ counter.w ^ key_high, kFirst * counter.x);
    key_low += 0x9E3779B9u;
    key_high += 0xBB67AE85u;
  }
  return counter;
}

}  // namespace stretto::cuda
