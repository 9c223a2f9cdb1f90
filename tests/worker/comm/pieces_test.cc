// SPDX-License-Identifier: Apache-2.0
#include "worker/comm/gloo/pieces.h"

#include "gtest/gtest.h"

namespace stretto::testing {
namespace {

TensorView Of(DType dtype, int64_t count) { return {.dtype = dtype, .shape = {count, 1, 1, 1}}; }

void ExpectRange(const Pieces::Range& range, int64_t begin, int64_t count) {
  EXPECT_EQ(range.begin, begin);
  EXPECT_EQ(range.count, count);
}

TEST(PiecesTest, TwoRanksReduceTheWholeTensor) {
  const auto call = Collective::AllReduce(Of(DType::kF32, 1'000'000), ReduceOp::kSum);
  const Pieces pieces(call, 2, 1 << 20);
  EXPECT_TRUE(pieces.whole());
  EXPECT_EQ(pieces.count(), 4);
  ExpectRange(pieces.PartOf(1), 0, 1'000'000);
  ExpectRange(pieces.PieceOf(0, 0), 0, 262'144);
  ExpectRange(pieces.PieceOf(1, 3), 786'432, 213'568);
}

TEST(PiecesTest, MoreRanksReduceAPartEach) {
  const auto call = Collective::AllReduce(Of(DType::kBF16, 8195), ReduceOp::kSum);
  const Pieces pieces(call, 4, 4096);
  EXPECT_FALSE(pieces.whole());
  ExpectRange(pieces.PartOf(0), 0, 2049);
  ExpectRange(pieces.PartOf(3), 6147, 2048);
  // The last piece of the longest part has one element, and that of the shortest has none.
  EXPECT_EQ(pieces.count(), 2);
  ExpectRange(pieces.PieceOf(0, 1), 2048, 1);
  ExpectRange(pieces.PieceOf(3, 1), 8195, 0);
}

TEST(PiecesTest, AShortTensorGoesWholeToEveryRank) {
  const auto call = Collective::AllReduce(Of(DType::kBF16, 8192), ReduceOp::kSum);
  EXPECT_TRUE(Pieces(call, 4, 4096).whole());
  EXPECT_EQ(Pieces(call, 4, 4096).count(), 4);
}

TEST(PiecesTest, AReduceScatterIsNeverWhole) {
  const auto call = Collective::ReduceScatter(Of(DType::kI32, 6), Of(DType::kI32, 3));
  const Pieces pieces(call, 2, 8);
  EXPECT_FALSE(pieces.whole());
  EXPECT_EQ(pieces.count(), 2);
  ExpectRange(pieces.PieceOf(1, 1), 5, 1);
}

TEST(PiecesTest, NothingHasNoPieces) {
  const auto call = Collective::AllReduce(Of(DType::kF32, 0), ReduceOp::kSum);
  EXPECT_EQ(Pieces(call, 4, 4096).count(), 0);
  const auto scatter = Collective::ReduceScatter(Of(DType::kF32, 0), Of(DType::kF32, 0));
  EXPECT_EQ(Pieces(scatter, 4, 4096).count(), 0);
}

TEST(PiecesTest, OneRankReducesEverythingAtOnce) {
  const auto call = Collective::AllReduce(Of(DType::kF32, 5), ReduceOp::kSum);
  const Pieces pieces(call, 1, 20);
  EXPECT_EQ(pieces.count(), 1);
  ExpectRange(pieces.PieceOf(0, 0), 0, 5);
}

}  // namespace
}  // namespace stretto::testing
