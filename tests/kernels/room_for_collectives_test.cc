// SPDX-License-Identifier: Apache-2.0

// Under a limit on SMs a kernel leaves the other SMs free: it has one block per SM.
#include <cuda_runtime.h>

#include "kernels/cuda/cuda_ops.h"
#include "tests/kernels/testing.h"

namespace stretto {
namespace {

// Work for many more blocks than fit on the four SMs of the device.
constexpr int64_t kRows = 64, kColumns = 4096;

unsigned GridWith(int sm_limit, std::vector<double>* result) {
  const std::unique_ptr<Ops> made = AllModes().front().make();
  auto& ops = static_cast<CudaOps&>(*made);
  ops.LimitSms(sm_limit);
  Tensor u(DType::kF32, kRows, kColumns), a(DType::kF32, kRows, kColumns);
  for (int64_t i = 0; i < kRows * kColumns; ++i)
    u.view().as<float>()[i] = 0.01f * static_cast<float>(i % 701 - 350);
  ops.Gelu(u.view(), a.view());
  EXPECT_STREQ(ops.error(), "");
  *result = a.doubles();
  return gridDim.x;  // of the kernel that ran last
}

TEST(RoomForCollectivesTest, UnderALimitThereIsOneBlockPerSm) {
  std::vector<double> all, three, one;
  EXPECT_GT(GridWith(0, &all), 4u);
  EXPECT_EQ(GridWith(3, &three), 3u);
  EXPECT_EQ(GridWith(1, &one), 1u);
  EXPECT_EQ(three, all);
  EXPECT_EQ(one, all);
}

}  // namespace
}  // namespace stretto
