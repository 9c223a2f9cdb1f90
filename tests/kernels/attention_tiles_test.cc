// SPDX-License-Identifier: Apache-2.0

// Attention at the head dimensions of models, which an implementation may have kernels of their own
// for, against the CPU in f32.
#include "tests/kernels/attention_batch.h"

namespace stretto {
namespace {

using AttentionTilesTest = OpsTest;
STRETTO_ALL_MODES(AttentionTilesTest);

constexpr Dropout kQuarter{.threshold = int64_t{1} << 30, .site = 6, .first_token = 40};

void CheckAgainstCpu(Ops& ops, DType dtype, const AttentionShape& shape, const Dropout& dropout,
                     int64_t sequences) {
  SCOPED_TRACE(testing::Message() << "head_dim " << shape.head_dim);
  AttentionBatch want(DType::kF32, shape, dropout, sequences);
  AttentionBatch got(dtype, shape, dropout, sequences);
  want.Run(*MakeCpuOps());
  got.Run(ops);
  const bool bf16 = dtype == DType::kBF16;
  ExpectNear(got.lse, want.lse.doubles());
  // Tensor cores multiply probabilities rounded to bf16: an element, a mean of values, moves by at
  // most 2^-9 of the largest value, and row 0 of a context is a value.
  ExpectNear(got.context, want.context.doubles(), bf16 ? 1.0 / 512 : 1e-5);
  // Gradients take context (see attention_test.cc) and the gradients of scores in bf16: twice that.
  ExpectNear(got.dqkv, want.dqkv.doubles(), bf16 ? 1.0 / 256 : 2e-5);
}

// Two tiles of queries and of keys, the second with a rest.
TEST_P(AttentionTilesTest, EveryHeadDimensionMatchesTheCpu) {
  for (const int64_t head_dim : {48, 64, 80, 96, 128}) {
    CheckAgainstCpu(*ops_, GetParam().dtype,
                    {.sequence_length = 150, .heads = 2, .kv_heads = 2, .head_dim = head_dim}, {},
                    1);
  }
}

TEST_P(AttentionTilesTest, GroupsOfQueriesMatchTheCpu) {
  for (const int64_t head_dim : {48, 64, 80, 96, 128}) {
    CheckAgainstCpu(*ops_, GetParam().dtype,
                    {.sequence_length = 70, .heads = 8, .kv_heads = 2, .head_dim = head_dim}, {},
                    2);
  }
}

TEST_P(AttentionTilesTest, DropoutMatchesTheCpu) {
  for (const int64_t head_dim : {48, 64, 80, 96, 128}) {
    CheckAgainstCpu(
        *ops_, GetParam().dtype,
        {.sequence_length = 139, .heads = 2, .kv_heads = 1, .head_dim = head_dim, .first_head = 3},
        kQuarter, 1);
  }
}

// More tiles than a device of few multiprocessors has room for at once.
TEST_P(AttentionTilesTest, LongSequencesMatchTheCpu) {
  CheckAgainstCpu(*ops_, GetParam().dtype,
                  {.sequence_length = 290, .heads = 2, .kv_heads = 1, .head_dim = 64}, {}, 2);
}

TEST_P(AttentionTilesTest, LengthsAroundATileMatchTheCpu) {
  for (const int64_t length : {1, 31, 63, 64, 65, 128, 129}) {
    CheckAgainstCpu(*ops_, GetParam().dtype,
                    {.sequence_length = length, .heads = 1, .kv_heads = 1, .head_dim = 80}, {}, 2);
  }
}

TEST_P(AttentionTilesTest, SlicesGiveTheBitsOfTheWhole) {
  const AttentionShape shape{.sequence_length = 133, .heads = 2, .kv_heads = 1, .head_dim = 64};
  for (const Dropout& dropout : {Dropout{}, kQuarter}) {
    AttentionBatch whole(GetParam().dtype, shape, dropout, 3);
    AttentionBatch sliced(GetParam().dtype, shape, dropout, 3);
    whole.Run(*ops_);
    sliced.Run(*ops_, 2, 1);
    sliced.Run(*ops_, 0, 2);
    EXPECT_EQ(sliced.Bits(), whole.Bits());
  }
}

TEST_P(AttentionTilesTest, LaterTokensDoNotReachEarlierOnes) {
  const AttentionShape shape{.sequence_length = 140, .heads = 1, .kv_heads = 1, .head_dim = 64};
  AttentionBatch before(GetParam().dtype, shape, {}, 1), after(GetParam().dtype, shape, {}, 1);
  for (int64_t i = 139 * 192; i < 140 * 192; ++i) after.qkv.Set(i, 3);
  before.Run(*ops_);
  after.Run(*ops_);
  for (int64_t i = 0; i < 139 * 64; ++i)
    ASSERT_EQ(after.context.At(i), before.context.At(i)) << "element " << i;
}

}  // namespace
}  // namespace stretto
