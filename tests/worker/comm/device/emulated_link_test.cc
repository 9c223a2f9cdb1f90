// SPDX-License-Identifier: Apache-2.0
#include "worker/comm/emulated_link/emulated_link.h"

#include <cuda_runtime.h>

#include "gmock/gmock.h"
#include "tests/worker/comm/tensors.h"

namespace stretto::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kSize = 4, kRank = 2, kBlocks = 3;
constexpr DType kLinkDTypes[] = {DType::kF32, DType::kBF16, DType::kI32};
// Whole packs and not; less and more than all threads of all blocks move at once.
constexpr int64_t kLinkCounts[] = {0, 1, 3, 4096, 4097, 1 << 17};

EmulatedLinkOptions Options() {
  return {.rank = kRank,
          .size = kSize,
          .blocks = kBlocks,
          .latency = absl::Microseconds(12),
          .bytes_per_second = 1e9};
}

std::unique_ptr<DeviceCommunicator> Make(const EmulatedLinkOptions& options = Options()) {
  auto link = MakeEmulatedLink(options);
  EXPECT_TRUE(link.ok()) << link.status();
  return *std::move(link);
}

// How long the device's clock says that each block was resident for a call. Blocks of the emulated
// device run one after another.
template <class Call>
int64_t ResidentNanoseconds(int blocks, Call call) {
  const int64_t before = cuda_emulator::global_timer;
  const absl::Status status = call();
  EXPECT_TRUE(status.ok()) << status;
  return (cuda_emulator::global_timer - before) / blocks;
}

void ExpectElements(const Tensor& tensor, int64_t begin, int64_t count, int scale, int64_t from) {
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(tensor.Get(begin + i), static_cast<float>(scale) * Pattern(kRank, from + i))
        << "element " << begin + i;
  }
}

TEST(EmulatedLinkTest, SumsAreThoseOfEqualRanksAndMaximaTheOwnValues) {
  const auto link = Make();
  for (DType dtype : kLinkDTypes) {
    for (int64_t count : kLinkCounts) {
      SCOPED_TRACE(::testing::Message() << NameOf(dtype) << " x " << count);
      Tensor sum = Patterned(dtype, kRank, count), max = Patterned(dtype, kRank, count);
      ASSERT_TRUE(link->Run(Collective::AllReduce(sum.view(), ReduceOp::kSum), nullptr).ok());
      ASSERT_TRUE(link->Run(Collective::AllReduce(max.view(), ReduceOp::kMax), nullptr).ok());
      ExpectElements(sum, 0, count, kSize, 0);
      ExpectElements(max, 0, count, 1, 0);
    }
  }
}

TEST(EmulatedLinkTest, EveryGatheredPartIsACopyOfTheOwn) {
  const auto link = Make();
  for (DType dtype : kLinkDTypes) {
    for (int64_t count : kLinkCounts) {
      SCOPED_TRACE(::testing::Message() << NameOf(dtype) << " x " << count);
      Tensor out(dtype, count * kSize);
      for (int64_t i = 0; i < count; ++i) out.Set(kRank * count + i, Pattern(kRank, i));
      ASSERT_TRUE(
          link->Run(Collective::AllGather(out.Part(kRank * count, count), out.view()), nullptr)
              .ok());
      for (int r = 0; r < kSize; ++r) ExpectElements(out, r * count, count, 1, 0);
    }
  }
}

TEST(EmulatedLinkTest, ScatteredPartIsTheOwnPartOfTheSum) {
  const auto link = Make();
  for (DType dtype : kLinkDTypes) {
    for (int64_t count : kLinkCounts) {
      SCOPED_TRACE(::testing::Message() << NameOf(dtype) << " x " << count);
      Tensor in = Patterned(dtype, kRank, count * kSize), out(dtype, count);
      ASSERT_TRUE(link->Run(Collective::ReduceScatter(in.view(), out.view()), nullptr).ok());
      ExpectElements(out, 0, count, kSize, kRank * count);
      ExpectElements(in, 0, count * kSize, 1, 0);
    }
  }
}

TEST(EmulatedLinkTest, BlocksStayForLatencyAndBytesOverBandwidth) {
  const auto link = Make();
  Tensor whole(DType::kF32, 100'000), part(DType::kF32, 25'000);  // 400 kB at 1 GB/s: 400 us
  const auto near = [](int64_t microseconds) {
    return ::testing::AllOf(::testing::Ge(microseconds * 1000),
                            ::testing::Le(microseconds * 1000 + 5000));
  };
  EXPECT_THAT(
      ResidentNanoseconds(
          kBlocks,
          [&] { return link->Run(Collective::AllReduce(whole.view(), ReduceOp::kSum), nullptr); }),
      near(12 + 400));
  EXPECT_THAT(
      ResidentNanoseconds(
          kBlocks,
          [&] { return link->Run(Collective::AllGather(part.view(), whole.view()), nullptr); }),
      near(12 + 200));
  EXPECT_THAT(
      ResidentNanoseconds(
          kBlocks,
          [&] { return link->Run(Collective::ReduceScatter(whole.view(), part.view()), nullptr); }),
      near(12 + 200));
  EXPECT_THAT(
      ResidentNanoseconds(
          kBlocks, [&] { return link->Run(Collective::Broadcast(whole.view(), 0), nullptr); }),
      near(12 + 200));
}

TEST(EmulatedLinkTest, ABroadcastLeavesTheTensorAsItIs) {
  const auto link = Make();
  for (int64_t count : kLinkCounts) {
    Tensor tensor = Patterned(DType::kF32, kRank, count);
    ASSERT_TRUE(link->Run(Collective::Broadcast(tensor.view(), 0), nullptr).ok());
    ExpectElements(tensor, 0, count, 1, 0);
  }
}

TEST(EmulatedLinkTest, OneRankWaitsForNothing) {
  EmulatedLinkOptions options = Options();
  options.rank = 0;
  options.size = 1;
  const auto link = Make(options);
  Tensor tensor = Patterned(DType::kF32, kRank, 100'000);

  const int64_t resident = ResidentNanoseconds(kBlocks, [&] {
    return link->Run(Collective::AllReduce(tensor.view(), ReduceOp::kSum), nullptr);
  });

  EXPECT_LE(resident, 5000);
  ExpectElements(tensor, 0, tensor.view().count(), 1, 0);
}

TEST(EmulatedLinkTest, AbortEndsTheGroup) {
  const auto link = Make();
  Tensor tensor = Patterned(DType::kF32, kRank, 3);
  ASSERT_TRUE(link->Poll().ok());

  link->Abort();

  const absl::Status status =
      link->Run(Collective::AllReduce(tensor.view(), ReduceOp::kSum), nullptr);
  EXPECT_EQ(status, absl::AbortedError("rank 2 of 4 (emulated link): aborted"));
  EXPECT_EQ(link->Poll(), status);
  ExpectElements(tensor, 0, 3, 1, 0);
}

TEST(EmulatedLinkTest, WrongArgumentsAndOptionsAreNamed) {
  Tensor three(DType::kF32, 3), eight(DType::kF32, 8);
  EXPECT_EQ(Make()->Run(Collective::AllGather(three.view(), eight.view()), nullptr).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Make()->Run(Collective::ReduceScatter(eight.view(), three.view()), nullptr).code(),
            absl::StatusCode::kInvalidArgument);
  const auto refusal = [](auto change) {
    EmulatedLinkOptions options = Options();
    change(options);
    const absl::Status status = MakeEmulatedLink(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal([](auto& o) { o.size = 0; }), HasSubstr("size is 0"));
  EXPECT_THAT(refusal([](auto& o) { o.size = 257; }),
              HasSubstr("size is 257, expected at most 256"));
  EXPECT_THAT(refusal([](auto& o) { o.rank = 4; }), HasSubstr("rank is 4, expected 0 to 3"));
  EXPECT_THAT(refusal([](auto& o) { o.blocks = 0; }), HasSubstr("blocks is 0"));
  EXPECT_THAT(refusal([](auto& o) { o.latency = -absl::Seconds(1); }), HasSubstr("latency is -1s"));
  EXPECT_THAT(refusal([](auto& o) { o.bytes_per_second = 0; }), HasSubstr("bytes_per_second is 0"));
}

}  // namespace
}  // namespace stretto::testing
