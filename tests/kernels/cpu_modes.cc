// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/cpu_ops.h"
#include "tests/kernels/testing.h"

namespace stretto {

std::vector<Mode> AllModes() {
  const auto with = [](BF16Products products) {
    return [=] { return MakeCpuOps({.bf16_products = products}); };
  };
  return {{"f32", DType::kF32, with(BF16Products::kFastest)},
          {"bf16", DType::kBF16, with(BF16Products::kNative)},
          {"bf16_by_f32", DType::kBF16, with(BF16Products::kInF32)}};
}

}  // namespace stretto
