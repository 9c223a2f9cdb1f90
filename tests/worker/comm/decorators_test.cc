// SPDX-License-Identifier: Apache-2.0
#include <ctime>

#include "gtest/gtest.h"
#include "proto/base/clock.h"
#include "tests/worker/comm/groups.h"
#include "tests/worker/comm/tensors.h"

namespace stretto::testing {
namespace {

constexpr Link kLink = {.bytes_per_second = 1e6, .latency = absl::Milliseconds(1)};

TEST(WireTimeTest, CountsStepsAndBytesOfEachCollective) {
  Tensor four_kb(DType::kF32, 1000), part(DType::kF32, 250);
  const TensorView whole = four_kb.view();
  const auto time = [](const Collective& collective) {
    return PacedCommunicator::WireTime(collective, 4, kLink);
  };
  EXPECT_EQ(time(Collective::AllReduce(whole, ReduceOp::kSum)), absl::Milliseconds(6 + 6));
  EXPECT_EQ(time(Collective::AllGather(part.view(), whole)), absl::Milliseconds(3 + 3));
  EXPECT_EQ(time(Collective::ReduceScatter(whole, part.view())), absl::Milliseconds(3 + 3));
  // One chunk over the three hops of the chain; then twenty, which follow each other.
  EXPECT_EQ(time(Collective::Broadcast(whole, 0)), 3 * absl::Milliseconds(1 + 4));
  Tensor long_one(DType::kF32, 20 * kChainChunkBytes / 4);
  EXPECT_EQ(time(Collective::Broadcast(long_one.view(), 0)),
            22 * (absl::Milliseconds(1) + absl::Microseconds(kChainChunkBytes)));
  EXPECT_EQ(time(Collective::Barrier()), absl::Milliseconds(1));
}

TEST(WireTimeTest, OneRankCostsNothing) {
  Tensor tensor(DType::kF32, 1 << 20);
  const TensorView all = tensor.view();
  for (const Collective& collective :
       {Collective::AllReduce(all, ReduceOp::kSum), Collective::ReduceScatter(all, all),
        Collective::AllGather(all, all), Collective::Broadcast(all, 0), Collective::Barrier()}) {
    EXPECT_EQ(PacedCommunicator::WireTime(collective, 1, kLink), absl::ZeroDuration());
  }
}

TEST(WireTimeTest, SixteenMebibytesOnOneGigabitBetweenTwoRanks) {
  const Link gigabit = {.bytes_per_second = 125e6, .latency = absl::ZeroDuration()};
  Tensor tensor(DType::kF32, 4 << 20);
  const absl::Duration time =
      PacedCommunicator::WireTime(Collective::AllReduce(tensor.view(), ReduceOp::kSum), 2, gigabit);
  EXPECT_NEAR(absl::ToDoubleSeconds(time), 0.134217728, 1e-9);
}

absl::Duration ThreadCpu() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return absl::DurationFromTimespec(now);
}

TEST(PacedTest, TakesAtLeastTheWireTimeAndSleepsThroughIt) {
  Ranks ranks = Local(2);
  for (auto& rank : ranks) rank = std::make_unique<PacedCommunicator>(std::move(rank), kLink);

  OnEveryRank(ranks, [&](Communicator& comm) {
    Tensor tensor = Patterned(DType::kF32, comm.rank(), 12500);  // 50 kB: 52 ms
    const absl::Duration wall = Clock::Real().Monotonic(), cpu = ThreadCpu();
    ASSERT_TRUE(comm.Run(Collective::AllReduce(tensor.view(), ReduceOp::kSum)).ok());
    EXPECT_GE(Clock::Real().Monotonic() - wall, absl::Milliseconds(52));
    EXPECT_LT(ThreadCpu() - cpu, absl::Milliseconds(26));
  });
}

TEST(PacedTest, FailedInnerCallIsReturnedAtOnce) {
  Ranks ranks = Local(2);
  const Link slow = {.bytes_per_second = 1e-3, .latency = absl::Hours(1)};
  for (auto& rank : ranks) rank = std::make_unique<PacedCommunicator>(std::move(rank), slow);
  ranks[1]->Abort();
  Tensor tensor = Patterned(DType::kF32, 0, 10);

  EXPECT_EQ(ranks[0]->Run(Collective::AllReduce(tensor.view(), ReduceOp::kSum)).code(),
            absl::StatusCode::kAborted);
}

TEST(DelayedTest, DelaysDependOnSeedRankCallAndSideAndStayBelowTheMaximum) {
  const absl::Duration max = absl::Milliseconds(5);
  const auto delay = [&](uint64_t seed, int rank, uint64_t call, int side) {
    return DelayedCommunicator::Delay(seed, rank, call, side, max);
  };
  EXPECT_EQ(delay(1, 0, 0, 0), delay(1, 0, 0, 0));
  EXPECT_NE(delay(1, 0, 0, 0), delay(2, 0, 0, 0));
  EXPECT_NE(delay(1, 0, 0, 0), delay(1, 1, 0, 0));
  EXPECT_NE(delay(1, 0, 0, 0), delay(1, 0, 1, 0));
  EXPECT_NE(delay(1, 0, 0, 0), delay(1, 0, 0, 1));
  for (uint64_t call = 0; call < 1000; ++call) {
    EXPECT_GE(delay(3, 1, call, 0), absl::ZeroDuration());
    EXPECT_LT(delay(3, 1, call, 0), max);
  }
}

}  // namespace
}  // namespace stretto::testing
