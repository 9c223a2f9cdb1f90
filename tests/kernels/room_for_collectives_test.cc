// SPDX-License-Identifier: Apache-2.0

// Under a limit on SMs, kernels that fill them leave the others free, and the rest have short
// blocks.
#include <cuda_runtime.h>

#include "kernels/cuda/cuda_ops.h"
#include "tests/kernels/testing.h"

namespace stretto {
namespace {

// Work for many more blocks than fit on the four SMs of the device.
constexpr int64_t kLongRows = 64, kLongColumns = 4096;

class RoomForCollectivesTest : public testing::Test {
 protected:
  std::unique_ptr<Ops> made_ = AllModes().front().make();
  CudaOps& ops_ = static_cast<CudaOps&>(*made_);

  // Returns the grid of the kernel that ran last.
  unsigned Grid() {
    EXPECT_STREQ(ops_.error(), "");
    return gridDim.x;
  }
};

TEST_F(RoomForCollectivesTest, KernelsBoundByMemoryHaveShortBlocks) {
  Tensor u(DType::kF32, kLongRows, kLongColumns);
  for (int64_t i = 0; i < kLongRows * kLongColumns; ++i)
    u.view().as<float>()[i] = 0.01f * static_cast<float>(i % 701 - 350);
  const auto grid_with = [&](int sm_limit, Tensor& a) {
    ops_.LimitSms(sm_limit);
    ops_.Gelu(u.view(), a.view());
    return Grid();
  };
  Tensor all(DType::kF32, kLongRows, kLongColumns), limited(DType::kF32, kLongRows, kLongColumns);
  const unsigned resident = grid_with(0, all);
  EXPECT_EQ(resident, 4u * 2048 / 256);
  EXPECT_EQ(grid_with(3, limited), 8 * resident);
  EXPECT_EQ(limited.bytes(), all.bytes());
}

TEST_F(RoomForCollectivesTest, AttentionHasOneBlockPerSm) {
  const AttentionShape shape{.sequence_length = 64, .heads = 4, .kv_heads = 4, .head_dim = 64};
  Tensor qkv = Tensor(DType::kF32, kLongRows, shape.qkv_columns()).Fill(1);
  Tensor scratch(DType::kF32, 1, AttentionScratch(shape, kLongRows)), keys = KeysOf(1, 2, 3, 4);
  const auto grid_with = [&](int sm_limit, Tensor& context) {
    Tensor lse(DType::kF32, shape.heads, shape.sequence_length);
    ops_.LimitSms(sm_limit);
    ops_.Attention(shape, {}, keys.view(), {}, qkv.view(), context.view(), lse.view(),
                   scratch.view());
    return Grid();
  };
  Tensor all(DType::kF32, kLongRows, shape.context_columns()), three = all, one = all;
  EXPECT_GT(grid_with(0, all), 4u);
  EXPECT_EQ(grid_with(3, three), 3u);
  EXPECT_EQ(grid_with(1, one), 1u);
  EXPECT_EQ(three.bytes(), all.bytes());
  EXPECT_EQ(one.bytes(), all.bytes());
}

}  // namespace
}  // namespace stretto
