// SPDX-License-Identifier: Apache-2.0
#include "worker/comm/emulated_link/emulated_link.h"

#include <cuda_runtime.h>

#include <cstring>

#include "gmock/gmock.h"
#include "kernels/cuda/link_copies.h"
#include "tests/worker/comm/tensors.h"

namespace stretto::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kSize = 4, kRank = 2, kBlocks = 3;
constexpr DType kDTypes[] = {DType::kF32, DType::kBF16, DType::kI32};
// Whole packs and not; less and more than all threads of all blocks move at once.
constexpr int64_t kCounts[] = {0, 1, 3, 4096, 4097, 1 << 17};

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
  for (DType dtype : kDTypes) {
    for (int64_t count : kCounts) {
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
  for (DType dtype : kDTypes) {
    for (int64_t count : kCounts) {
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
  for (DType dtype : kDTypes) {
    for (int64_t count : kCounts) {
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
  for (int64_t count : kCounts) {
    Tensor tensor = Patterned(DType::kF32, kRank, count);
    ASSERT_TRUE(link->Run(Collective::Broadcast(tensor.view(), 0), nullptr).ok());
    ExpectElements(tensor, 0, count, 1, 0);
  }
}

// A tensor on the emulated device, which copies, unlike kernels, insist on.
class OnDevice {
 public:
  explicit OnDevice(const Tensor& tensor) : tensor_(tensor) {
    bytes_ = tensor_.bytes().size();
    EXPECT_EQ(cudaMalloc(&data_, bytes_), cudaSuccess);
    if (bytes_ > 0) std::memcpy(data_, tensor_.bytes().data(), bytes_);
  }
  OnDevice(const OnDevice&) = delete;
  ~OnDevice() { (void)cudaFree(data_); }

  TensorView view() { return Part(0, tensor_.view().count()); }
  TensorView Part(int64_t begin, int64_t count) {
    TensorView view = tensor_.Part(begin, count);
    view.data = static_cast<char*>(data_) + begin * static_cast<int64_t>(SizeOf(view.dtype));
    return view;
  }
  Tensor Back() {
    if (bytes_ > 0) std::memcpy(tensor_.view().data, data_, bytes_);
    return tensor_;
  }

 private:
  Tensor tensor_;
  size_t bytes_ = 0;
  void* data_ = nullptr;
};

class LinkByCopiesTest : public ::testing::Test {
 protected:
  LinkByCopiesTest() { cuda_emulator::Reset(); }
  ~LinkByCopiesTest() override {
    EXPECT_EQ(cuda_emulator::TrafficSoFar().kernels, 0);
    EXPECT_EQ(cuda_emulator::Leaks(), 0);
    cuda_emulator::Reset();
  }
  static EmulatedLinkOptions Without(int rank) {
    EmulatedLinkOptions options = Options();
    options.rank = rank;
    options.blocks = 0;
    return options;
  }
};

TEST_F(LinkByCopiesTest, SumsAreTheOwnValuesAndGatheredPartsCopies) {
  for (int rank = 0; rank < kSize; ++rank) {
    const auto link = Make(Without(rank));
    for (int64_t count : kCounts) {
      SCOPED_TRACE(::testing::Message() << "rank " << rank << ", " << count << " elements");
      OnDevice sum(Patterned(DType::kBF16, kRank, count));
      ASSERT_TRUE(link->Run(Collective::AllReduce(sum.view(), ReduceOp::kSum), nullptr).ok());
      ExpectElements(sum.Back(), 0, count, 1, 0);
      Tensor whole(DType::kF32, count * kSize);
      for (int64_t i = 0; i < count; ++i) whole.Set(rank * count + i, Pattern(kRank, i));
      OnDevice out(whole);
      ASSERT_TRUE(
          link->Run(Collective::AllGather(out.Part(rank * count, count), out.view()), nullptr)
              .ok());
      OnDevice in(Patterned(DType::kF32, kRank, count)), apart(Tensor(DType::kF32, count * kSize));
      ASSERT_TRUE(link->Run(Collective::AllGather(in.view(), apart.view()), nullptr).ok());
      for (int r = 0; r < kSize; ++r) {
        ExpectElements(out.Back(), r * count, count, 1, 0);
        ExpectElements(apart.Back(), r * count, count, 1, 0);
      }
      OnDevice all(Patterned(DType::kF32, kRank, count * kSize)), part(Tensor(DType::kF32, count));
      ASSERT_TRUE(link->Run(Collective::ReduceScatter(all.view(), part.view()), nullptr).ok());
      ExpectElements(part.Back(), 0, count, 1, rank * count);
    }
  }
}

// 100 us and 1 ms, of which copies within the device, at 1 us + bytes / 100 GB/s, fill 4 us + 40
// us; copies to the host take 2 us + bytes / 10 GB/s.
TEST_F(LinkByCopiesTest, CopiesToTheHostFillTheTimeThatCopiesWithinTheDeviceLeave) {
  const CopyPace pace = {.within = {1000, 100}, .to_host = {2000, 10}};
  const auto copies = *LinkCopies::Create(pace);
  OnDevice tensor(Patterned(DType::kF32, kRank, 1'000'000));
  for (int64_t latency : {0, 100'000}) {
    cuda_emulator::TrafficSoFar() = {};
    const char* error = copies->Enqueue({.in = tensor.view().data,
                                         .out = tensor.view().data,
                                         .count = 1'000'000,
                                         .latency_nanoseconds = latency,
                                         .transfer_nanoseconds = 1'000'000},
                                        nullptr);
    ASSERT_EQ(error, nullptr);
    const cuda_emulator::Traffic traffic = cuda_emulator::TrafficSoFar();
    EXPECT_EQ(traffic.within_device, 4'000'000);
    const int64_t clocks = latency > 0 ? 5 : 4;  // one behind each copy, one before them
    EXPECT_NEAR(static_cast<double>(traffic.to_host),
                static_cast<double>((latency + 1'000'000 - 44'000 - clocks * 2000) * 10), 100);
  }
}

TEST_F(LinkByCopiesTest, CopiesThatAreSlowerThanTheLinkLeaveNoTime) {
  const auto copies = *LinkCopies::Create(CopyPace{.within = {1000, 0.1}, .to_host = {2000, 10}});
  OnDevice tensor(Patterned(DType::kF32, kRank, 1'000'000));
  ASSERT_EQ(copies->Enqueue({.in = tensor.view().data,
                             .out = tensor.view().data,
                             .count = 1'000'000,
                             .transfer_nanoseconds = 1'000'000},
                            nullptr),
            nullptr);
  EXPECT_EQ(cuda_emulator::TrafficSoFar().to_host, 0);
}

TEST_F(LinkByCopiesTest, ThePaceIsMeasuredAndADeviceWithoutMemoryNamed) {
  const auto copies = LinkCopies::Create();
  ASSERT_TRUE(copies.ok()) << copies.status();
  for (const CopyRate& rate : {(*copies)->pace().within, (*copies)->pace().to_host}) {
    EXPECT_GT(rate.bytes_per_nanosecond, 0);
    EXPECT_GE(rate.nanoseconds, 0);
  }
  cuda_emulator::SetMemory(1 << 20);
  const absl::Status status = MakeEmulatedLink(Without(0)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("emulated link by copies: "));
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
  EXPECT_THAT(refusal([](auto& o) { o.rank = 4; }), HasSubstr("rank is 4, expected 0 to 3"));
  EXPECT_THAT(refusal([](auto& o) { o.blocks = -1; }), HasSubstr("blocks is -1"));
  EXPECT_THAT(refusal([](auto& o) { o.latency = -absl::Seconds(1); }), HasSubstr("latency is -1s"));
  EXPECT_THAT(refusal([](auto& o) { o.bytes_per_second = 0; }), HasSubstr("bytes_per_second is 0"));
}

}  // namespace
}  // namespace stretto::testing
