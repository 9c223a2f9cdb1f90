// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random draws of dropout, keyed as defined in kernels/ops.h.

#include <cstdint>

#include "kernels/cuda/philox.h"
#include "kernels/ops.h"

namespace stretto::cuda {

// The arguments of a kernel that drops elements; all zeros when dropout is off.
struct Drops {
  const uint32_t* keys;
  uint32_t threshold, site, first_token;
  float scale;
};

inline Drops DropsOf(const Dropout& dropout, const TensorView& keys) {
  if (!dropout.on()) return {};
  STRETTO_CHECK(keys.dtype == DType::kI32 && keys.count() >= kKeyCount);
  STRETTO_CHECK(dropout.threshold < (int64_t{1} << 32) && dropout.site < (1 << 16));
  return {.keys = keys.as<uint32_t>(),
          .threshold = static_cast<uint32_t>(dropout.threshold),
          .site = static_cast<uint32_t>(dropout.site),
          .first_token = static_cast<uint32_t>(dropout.first_token),
          .scale = dropout.scale()};
}

// The draws of one tensor, with its keys in registers. Draws nothing when dropout is off.
class Draws {
 public:
  __device__ explicit Draws(const Drops& drops) : drops_(drops) {
    if (drops.keys == nullptr) return;
    key_low_ = drops.keys[kSeedLow];
    key_high_ = drops.keys[kSeedHigh];
    step_ = drops.keys[kStepNumber];
    first_token_ = drops.keys[kFirstToken] + drops.first_token;
  }

  // Sets `factors` to 0 or the scale for columns [column, column + kCount) of a row; column % 4 ==
  // 0.
  template <int kCount>
  __device__ __forceinline__ void Factors(int64_t row, int column, float (&factors)[kCount]) const {
    static_assert(kCount % 4 == 0);
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      const uint4 words =
          Philox(make_uint4(static_cast<uint32_t>(column + i) / 4,
                            first_token_ + static_cast<uint32_t>(row), drops_.site, step_),
                 key_low_, key_high_);
      factors[i] = FactorOf(words.x);
      factors[i + 1] = FactorOf(words.y);
      factors[i + 2] = FactorOf(words.z);
      factors[i + 3] = FactorOf(words.w);
    }
  }

 private:
  __device__ __forceinline__ float FactorOf(uint32_t word) const {
    return word < drops_.threshold ? 0.0f : drops_.scale;
  }

  const Drops drops_;
  uint32_t key_low_ = 0, key_high_ = 0, step_ = 0, first_token_ = 0;
};

}  // namespace stretto::cuda
