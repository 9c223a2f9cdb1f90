// SPDX-License-Identifier: Apache-2.0

// Attention's bits do not depend on how a device runs its blocks and threads, nor on the size of
// its tiles, which is chosen so that SMs have equal work.
#include <cuda_runtime.h>

#include <algorithm>
#include <numeric>

#include "kernels/cuda/attention_tiles.h"
#include "kernels/cuda/cuda_ops.h"
#include "tests/kernels/attention_batch.h"

namespace stretto {
namespace {

// Several tiles in every turn, with rests.
constexpr AttentionShape kShape{.sequence_length = 140, .heads = 4, .kv_heads = 2, .head_dim = 64};
constexpr Dropout kDropsQuarter{.threshold = int64_t{1} << 30, .site = 6};

std::vector<unsigned char> BitsWith(int sm_limit, const AttentionShape& shape) {
  const std::unique_ptr<Ops> made = AllModes().front().make();
  auto& ops = static_cast<CudaOps&>(*made);
  ops.LimitSms(sm_limit);
  AttentionBatch batch(DType::kBF16, shape, kDropsQuarter, 1);
  batch.Run(ops);
  EXPECT_STREQ(ops.error(), "");
  return batch.Bits();
}

TEST(EmulatedAttentionTest, BitsDoNotDependOnTheSmLimit) {
  const auto all = BitsWith(0, kShape);
  EXPECT_EQ(BitsWith(1, kShape), all);
  EXPECT_EQ(BitsWith(2, kShape), all);
}

// A barrier or a wait for a copy that is missing shows in some order.
TEST(EmulatedAttentionTest, BitsDoNotDependOnTheOrderOfThreads) {
  for (const int64_t head_dim : {64, 128}) {
    AttentionShape shape = kShape;
    shape.head_dim = head_dim;
    const auto ascending = BitsWith(1, shape);
    for (uint64_t seed = 1; seed <= 2; ++seed) {
      cuda_emulator::Seed(seed);
      EXPECT_EQ(BitsWith(1, shape), ascending) << "head_dim " << head_dim << ", seed " << seed;
    }
    cuda_emulator::Seed(0);
  }
}

// A device of one SM takes large tiles, one of 132 small ones.
TEST(EmulatedAttentionTest, BitsDoNotDependOnTheSizeOfTiles) {
  for (const int64_t head_dim : {64, 80, 96, 128}) {
    for (const Dropout& dropout : {Dropout{}, kDropsQuarter}) {
      SCOPED_TRACE(testing::Message() << head_dim << " columns, dropout " << dropout.on());
      const auto bits_on = [&](int sms, unsigned threads_of_keys) {
        const AttentionShape shape{
            .sequence_length = 140, .heads = 2, .kv_heads = 1, .head_dim = head_dim};
        const std::unique_ptr<CudaOps> ops = MakeCudaOps({.sm_count = sms});
        AttentionBatch batch(DType::kBF16, shape, dropout, 1);
        batch.Run(*ops);
        EXPECT_STREQ(ops->error(), "");
        EXPECT_EQ(blockDim.x, threads_of_keys);  // of the kernel that ran last
        return batch.Bits();
      };
      EXPECT_EQ(bits_on(1, 256), bits_on(132, 128));
    }
  }
}

TEST(TilesOfAttentionTest, TilesAreSmallWhereTheLongestWouldDecide) {
  // A sequence of 4096 on 132 SMs with two blocks each: 32 heads at TP 1, 2, 4 and 8.
  EXPECT_FALSE(cuda::LongestDecides(32, 32, 264));
  EXPECT_FALSE(cuda::LongestDecides(32, 16, 264));
  EXPECT_TRUE(cuda::LongestDecides(32, 8, 264));
  EXPECT_TRUE(cuda::LongestDecides(32, 4, 264));
  // With one block: two turns are even.
  EXPECT_FALSE(cuda::LongestDecides(32, 8, 132));
  EXPECT_TRUE(cuda::LongestDecides(32, 4, 132));
  // The longest of two is 4/3 of a share if each has a block: 2 of 3 pieces, shared by two.
  EXPECT_TRUE(cuda::LongestDecides(2, 1, 2));
  EXPECT_FALSE(cuda::LongestDecides(2, 1, 1));
}

TEST(TilesOfAttentionTest, EveryTileIsDealtOnce) {
  for (const int sms : {1, 3, 4}) {
    for (const int blocks : {1, 2, 4, 5, 8, 9}) {
      for (const int items : {1, 7, 8, 9, 40}) {
        std::vector<int> seen(items);
        const cuda::Deal deal{items, sms};
        for (int block = 0; block < blocks; ++block) {
          for (int turn = 0, item; (item = deal.ItemOf(turn, block, blocks)) < items; ++turn) {
            ASSERT_GE(item, 0);
            ++seen[item];
          }
        }
        EXPECT_EQ(seen, std::vector<int>(items, 1))
            << items << " items, " << blocks << " blocks, " << sms << " SMs";
      }
    }
  }
}

// Returns how much longer the busiest SM works than it would if all had the same. Item i is the
// tile of the last rows, of `heads` heads each, which has the most work.
double Imbalance(int tiles, int heads, int sms, int blocks_per_sm) {
  const int items = tiles * heads, blocks = std::min(items, sms * blocks_per_sm);
  const cuda::Deal deal{items, sms};
  std::vector<int> work(sms);
  for (int block = 0; block < blocks; ++block) {
    for (int turn = 0, item; (item = deal.ItemOf(turn, block, blocks)) < items; ++turn)
      work[block % sms] += tiles - item / heads;
  }
  const double all = std::accumulate(work.begin(), work.end(), 0.0);
  return *std::max_element(work.begin(), work.end()) * sms / all;
}

// A sequence of 4096 tokens, one rank's heads of 32.
TEST(TilesOfAttentionTest, SmsHaveEqualWork) {
  EXPECT_GT(Imbalance(32, 4, 132, 2), 1.9);   // TP 8 with large tiles
  EXPECT_LT(Imbalance(64, 4, 132, 3), 1.04);  // and with small ones
  EXPECT_LT(Imbalance(64, 4, 132, 2), 1.04);
  EXPECT_LT(Imbalance(64, 8, 132, 3), 1.05);  // TP 4
  EXPECT_LT(Imbalance(32, 16, 132, 2), 1.05);
  EXPECT_LT(Imbalance(32, 32, 132, 2), 1.05);
}

}  // namespace
}  // namespace stretto
