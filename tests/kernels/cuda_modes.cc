// SPDX-License-Identifier: Apache-2.0

// The operations on a GPU.
#include "tests/kernels/cuda_device.h"
#include "tests/kernels/settled_ops.h"
#include "tests/kernels/testing.h"

namespace stretto {

std::vector<Mode> AllModes() {
  const auto on = [](int sms) {
    return [=] { return std::make_unique<SettledOps>(CudaDevice::Get().Ops(sms)); };
  };
  return {{"f32", DType::kF32, on(0), false},
          {"bf16", DType::kBF16, on(0), false},
          {"bf16_on_5_sms", DType::kBF16, on(5), false}};
}

}  // namespace stretto
