// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/backend_sim/sim_executor.h"

#include "gtest/gtest.h"
#include "tests/worker/engine/exec/intervals.h"
#include "tests/worker/engine/program/programs.h"

namespace stretto {
namespace {

// kLinear with a product of 2 s, a collective of 4 s and an activation of 1 s.
CostModel LinearCosts() {
  CostModel cost{.contention = {.compute = 0.25}};
  cost.table.Set("fwd fc gemm", 2);
  cost.table.Set("fwd fc all_reduce", 4);
  cost.table.Set("fwd act gelu", 1);
  return cost;
}

std::unique_ptr<Executor> Linear() {
  auto executor = MakeSimExecutor(ProgramOf(kLinear), LinearCosts());
  EXPECT_TRUE(executor.ok()) << executor.status();
  return *std::move(executor);
}

TEST(SimExecutorTest, AStepBeginsWhereTheLastOneEnded) {
  const std::unique_ptr<Executor> executor = Linear();
  for (int64_t start : {int64_t{0}, 7 * kSecond, 14 * kSecond}) {
    ASSERT_TRUE(executor->Run().ok());
    ASSERT_EQ(executor->intervals().size(), 3u);
    EXPECT_EQ(executor->intervals()[0].begin, start);
    EXPECT_EQ(executor->intervals()[1].begin, start + 2 * kSecond);
    EXPECT_EQ(executor->intervals()[2].begin, start + 6 * kSecond);
    EXPECT_EQ(executor->intervals()[2].end, start + 7 * kSecond);
  }
}

TEST(SimExecutorTest, CommunicationBurnsItsShareOfTheCore) {
  EXPECT_DOUBLE_EQ(Linear()->communication_cpu_seconds(), 0.25 * 4);
}

TEST(SimExecutorTest, CancelledOrNotItRuns) {
  const std::unique_ptr<Executor> executor = Linear();
  executor->Cancel();
  EXPECT_TRUE(executor->Run().ok());
}

TEST(SimExecutorDeathTest, ThereIsNoMemoryToView) {
  EXPECT_DEATH(Linear()->HostView(0), "a simulated program has no memory");
}

TEST(SimExecutorTest, NothingIsReadOrWritten) {
  const std::unique_ptr<Executor> executor = Linear();
  EXPECT_EQ(executor->Read(0).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(executor->Write(0, [](TensorView) { return absl::OkStatus(); }).code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(executor->Clear(0).code(), absl::StatusCode::kUnimplemented);
}

TEST(SimExecutorTest, BadCostsAreRefused) {
  CostModel cost = LinearCosts();
  cost.contention.compute = 1;
  EXPECT_EQ(MakeSimExecutor(ProgramOf(kLinear), cost).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace stretto
