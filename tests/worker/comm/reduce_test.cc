// SPDX-License-Identifier: Apache-2.0
#include "worker/comm/reduce.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "tests/worker/comm/groups.h"
#include "tests/worker/comm/tensors.h"

namespace stretto::testing {
namespace {

TEST(PartBeginTest, PartsCoverEveryElementOnceAndDifferByAtMostOne) {
  for (int parts = 1; parts <= 5; ++parts) {
    for (int64_t count = 0; count <= 23; ++count) {
      EXPECT_EQ(PartBegin(count, 0, parts), 0);
      EXPECT_EQ(PartBegin(count, parts, parts), count);
      for (int part = 0; part < parts; ++part) {
        const int64_t size = PartBegin(count, part + 1, parts) - PartBegin(count, part, parts);
        EXPECT_GE(size, count / parts);
        EXPECT_LE(size, count / parts + 1);
      }
    }
  }
}

template <class T>
T ReduceOne(DType dtype, ReduceOp op, std::vector<T> values) {
  std::vector<const void*> inputs;
  for (const T& value : values) inputs.push_back(&value);
  T result{};
  void* output = &result;
  Reduce(dtype, op, inputs, {&output, 1}, 0, 1);
  return result;
}

TEST(ReduceTest, F32AddsInTheOrderGiven) {
  // 1 is lost beside 2^24, unless the two large values cancel first.
  EXPECT_EQ(ReduceOne<float>(DType::kF32, ReduceOp::kSum, {0x1p24f, 1.0f, -0x1p24f}), 0.0f);
  EXPECT_EQ(ReduceOne<float>(DType::kF32, ReduceOp::kSum, {0x1p24f, -0x1p24f, 1.0f}), 1.0f);
}

TEST(ReduceTest, Bf16IsRoundedOnceAtTheEnd) {
  // In bf16 256 + 1 is 256; rounding at every step would lose all three ones.
  const BF16 one = ToBF16(1.0f);
  const BF16 sum = ReduceOne<BF16>(DType::kBF16, ReduceOp::kSum, {ToBF16(256.0f), one, one, one});
  EXPECT_EQ(ToFloat(sum), 260.0f);  // 259, rounded to a multiple of 2, ties to even
}

TEST(ReduceTest, I32Wraps) {
  const int32_t max = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(ReduceOne<int32_t>(DType::kI32, ReduceOp::kSum, {max, 1}),
            std::numeric_limits<int32_t>::min());
}

TEST(ReduceTest, NanWinsAMaximumFromAnyPlace) {
  const float nan = std::nanf("");
  EXPECT_TRUE(std::isnan(ReduceOne<float>(DType::kF32, ReduceOp::kMax, {nan, 1, 2})));
  EXPECT_TRUE(std::isnan(ReduceOne<float>(DType::kF32, ReduceOp::kMax, {1, 2, nan})));
  EXPECT_EQ(ReduceOne<float>(DType::kF32, ReduceOp::kMax, {-3, -1, -2}), -1.0f);
}

// Values whose sum depends on the order of addition.
Tensor Awkward(DType dtype, int rank, int64_t count) {
  Tensor tensor(dtype, count);
  for (int64_t i = 0; i < count; ++i) {
    tensor.Set(i, std::sin(static_cast<float>(i * 31 + rank * 17)) * std::exp2(rank * 5.0f));
  }
  return tensor;
}

std::vector<char> SumAtRank0(const Ranks& ranks, DType dtype, int64_t count) {
  std::vector<char> bytes;
  OnEveryRank(ranks, [&](Communicator& comm) {
    Tensor tensor = Awkward(dtype, comm.rank(), count);
    ASSERT_TRUE(comm.Run(Collective::AllReduce(tensor.view(), ReduceOp::kSum)).ok());
    if (comm.rank() == 0) bytes = tensor.bytes();
  });
  return bytes;
}

TEST(ReduceTest, EveryCommunicatorGivesTheBitsOfASumInRankOrder) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    for (int64_t count : {5, 20011}) {
      Tensor expected(dtype, count);
      std::vector<Tensor> inputs;
      for (int rank = 0; rank < 3; ++rank) inputs.push_back(Awkward(dtype, rank, count));
      for (int64_t i = 0; i < count; ++i) {
        expected.Set(i, (inputs[0].Get(i) + inputs[1].Get(i)) + inputs[2].Get(i));
      }
      for (const Kind& kind : AllKinds()) {
        EXPECT_TRUE(SumAtRank0(kind.create(3), dtype, count) == expected.bytes())
            << kind.name << " " << NameOf(dtype) << " x " << count;
      }
    }
  }
}

TEST(ReduceTest, RandomDelaysDoNotChangeTheBits) {
  const std::vector<char> reference = SumAtRank0(Local(4), DType::kF32, 4097);
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Ranks ranks = Local(4);
    for (auto& rank : ranks) {
      rank = std::make_unique<DelayedCommunicator>(std::move(rank), seed, absl::Milliseconds(2));
    }
    EXPECT_TRUE(SumAtRank0(ranks, DType::kF32, 4097) == reference) << "seed " << seed;
  }
}

}  // namespace
}  // namespace stretto::testing
