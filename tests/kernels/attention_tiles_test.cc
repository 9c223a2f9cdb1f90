// SPDX-License-Identifier: Apache-2.0

// Attention at the head dimensions of models, which an implementation may have kernels of their own
// for, against the CPU in f32.
#include "tests/kernels/attention_batch.h"

namespace stretto {
namespace {

using AttentionTilesTest = OpsTest;
STRETTO_ALL_MODES(AttentionTilesTest);

constexpr Dropout kTilesDropQuarter{.threshold = int64_t{1} << 30, .site = 6, .first_token = 40};

void CheckAgainstCpu(Ops& ops, DType dtype, const AttentionShape& shape, const Dropout& dropout,
                     int64_t sequences, const DocumentBegins& begins = {}) {
  SCOPED_TRACE(testing::Message() << "head_dim " << shape.head_dim);
  AttentionBatch want(DType::kF32, shape, dropout, sequences, begins);
  AttentionBatch got(dtype, shape, dropout, sequences, begins);
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
        kTilesDropQuarter, 1);
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
  for (const Dropout& dropout : {Dropout{}, kTilesDropQuarter}) {
    AttentionBatch whole(GetParam().dtype, shape, dropout, 3);
    AttentionBatch sliced(GetParam().dtype, shape, dropout, 3);
    whole.Run(*ops_);
    sliced.Run(*ops_, 2, 1);
    sliced.Run(*ops_, 0, 2);
    EXPECT_EQ(sliced.Bits(), whole.Bits());
  }
}

// Boundaries within and between tiles, and tiles that a document does not reach.
TEST_P(AttentionTilesTest, DocumentsMatchTheCpu) {
  for (const int64_t head_dim : {48, 64, 80, 96, 128}) {
    AttentionShape shape{
        .sequence_length = 200, .heads = 2, .kv_heads = 1, .head_dim = head_dim, .first_head = 3};
    CheckAgainstCpu(*ops_, GetParam().dtype, shape, {}, 1, {{0, 5, 64, 70, 149, 150}});
    shape.heads = 1;
    CheckAgainstCpu(*ops_, GetParam().dtype, shape, kTilesDropQuarter, 1, {{0, 130}});
  }
}

TEST_P(AttentionTilesTest, SlicesOfDocumentsGiveTheBitsOfTheWhole) {
  const AttentionShape shape{.sequence_length = 133, .heads = 2, .kv_heads = 1, .head_dim = 64};
  const DocumentBegins begins = {{0, 40}, {0, 64, 100, 132}, {0}};
  for (const Dropout& dropout : {Dropout{}, kTilesDropQuarter}) {
    AttentionBatch whole(GetParam().dtype, shape, dropout, 3, begins);
    AttentionBatch sliced(GetParam().dtype, shape, dropout, 3, begins);
    whole.Run(*ops_);
    sliced.Run(*ops_, 2, 1);
    sliced.Run(*ops_, 0, 2);
    EXPECT_EQ(sliced.Bits(), whole.Bits());
  }
}

TEST_P(AttentionTilesTest, SequencesOfOneDocumentHaveTheBitsOfThoseWithoutDocuments) {
  for (const int64_t head_dim : {48, 64, 128}) {
    const AttentionShape shape{
        .sequence_length = 140, .heads = 2, .kv_heads = 1, .head_dim = head_dim};
    for (const Dropout& dropout : {Dropout{}, kTilesDropQuarter}) {
      AttentionBatch without(GetParam().dtype, shape, dropout, 2);
      AttentionBatch with(GetParam().dtype, shape, dropout, 2, {{0}, {0}});
      without.Run(*ops_);
      with.Run(*ops_);
      EXPECT_EQ(with.Bits(), without.Bits()) << "head_dim " << head_dim;
    }
  }
}

TEST_P(AttentionTilesTest, ADocumentDoesNotReachAnother) {
  const AttentionShape shape{.sequence_length = 140, .heads = 1, .kv_heads = 1, .head_dim = 64};
  const DocumentBegins begins = {{0, 50, 90}};
  AttentionBatch before(GetParam().dtype, shape, {}, 1, begins);
  AttentionBatch after(GetParam().dtype, shape, {}, 1, begins);
  for (int64_t i = 50 * 192; i < 90 * 192; ++i) after.qkv.Set(i, 3);
  for (int64_t i = 50 * 64; i < 90 * 64; ++i) after.dcontext.Set(i, 3);
  before.Run(*ops_);
  after.Run(*ops_);
  for (int64_t row = 0; row < 140; ++row) {
    if (row >= 50 && row < 90) continue;
    for (int64_t i = row * 64; i < (row + 1) * 64; ++i)
      ASSERT_EQ(after.context.At(i), before.context.At(i)) << "row " << row;
    for (int64_t i = row * 192; i < (row + 1) * 192; ++i)
      ASSERT_EQ(after.dqkv.At(i), before.dqkv.At(i)) << "row " << row;
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
