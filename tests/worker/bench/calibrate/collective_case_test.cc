// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/calibrate/collective_case.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/exec/intervals.h"
#include "tests/worker/engine/program/programs.h"
#include "worker/engine/program/text.h"

namespace stretto::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kStep[] =
    "program rank=0 world=2\n"
    "group tp 0,1\n"
    "group pp.0-1 0,1\n"
    "lane compute\n"
    "lane comm.tp\n"
    "lane comm.pp.0-1\n"
    "buffer %0 x f32 4,8 input\n"
    "buffer %1 y f32 2,8 input\n"
    "0 comm.tp all_reduce a fwd mb0 in=%0 out=%0 on=tp wire=1\n"
    "1 comm.tp all_reduce b fwd mb1 in=%0 out=%0 on=tp wire=1\n"
    "2 comm.tp all_gather c fwd mb1 in=%1 out=%0 on=tp\n"
    "3 comm.pp.0-1 send d fwd mb0 in=%1 on=pp.0-1\n";

TEST(CollectiveCaseTest, WhatIsAlikeIsOneCaseAndMembersAgreeOnItsName) {
  const auto cases = CollectivesOf(ProgramOf(kStep));

  ASSERT_EQ(cases.size(), 3u);
  EXPECT_EQ(cases.at("tp all_reduce 64").ranks, 2);
  EXPECT_EQ(cases.at("tp all_reduce 64").count, 2);
  EXPECT_EQ(cases.at("tp all_gather 128").count, 1);
  EXPECT_EQ(cases.at("tp all_reduce 64").buffers.size(), 1u);
  EXPECT_EQ(cases.at("tp all_gather 128").kind, CollectiveKind::kAllGather);
  EXPECT_EQ(cases.at("tp all_gather 128").buffers.size(), 2u);
  EXPECT_EQ(cases.at("pp.0-1 transfer 64").operation, "send f32[2,8] > wire=0 ranks=2");
}

TEST(CollectiveCaseTest, CallsFollowOneAnotherOnALaneBesideTheComputation) {
  const Program program = ProgramOf(kStep);
  const auto cases = CollectivesOf(program);
  StepProgram step;
  step.lanes.push_back({"compute"});
  AddCalls(cases.at("tp all_gather 128"), 2, program.groups, &step);

  const Program calls = Expand(step);
  ASSERT_EQ(calls.ops.size(), 2u);
  EXPECT_EQ(calls.lanes[calls.ops[1].lane].name, "comm.tp");
  EXPECT_EQ(calls.ops[1].kind, OpKind::kAllGather);
  EXPECT_TRUE(calls.ops[1].waits.empty());
}

TEST(CollectiveCaseTest, AComputationReleasesACall) {
  const Program program = ProgramOf(kStep);
  const auto cases = CollectivesOf(program);
  StepProgram step;
  step.lanes.push_back({"compute"});
  step.units.push_back({"calls", {}});
  step.instances.emplace_back();
  for (int i = 0; i < 3; ++i) step.units[0].ops.push_back(Op{});
  AddReleased(cases.at("tp all_gather 128"), 1, program.groups, &step);

  const Program calls = Expand(step);
  ASSERT_EQ(calls.ops.size(), 5u);
  for (int call : {0, 4}) EXPECT_EQ(calls.ops[OpId::Of(call)].kind, OpKind::kAllGather);
  EXPECT_EQ(calls.ops[0].lane, calls.ops[4].lane);
  EXPECT_THAT(calls.ops[0].waits, IsEmpty());
  EXPECT_THAT(calls.ops[1].waits, ElementsAre(OpId(0)));
  for (int beside : {2, 3}) EXPECT_THAT(calls.ops[OpId::Of(beside)].waits, IsEmpty());
  EXPECT_THAT(calls.ops[4].waits, ElementsAre(OpId(2)));
}

// Copies of 2 s and calls of 4 s alone. Both ran from 1 to 7.
TEST(CollectiveCaseTest, ProgressIsOfTheTimeInWhichBothRan) {
  const Progress progress =
      ProgressOf({{At(0, 3), At(3, 5), At(5, 7), At(1, 6), At(6, 11)}}, 3, 2, 4);

  EXPECT_DOUBLE_EQ(progress.seconds, 6);
  EXPECT_DOUBLE_EQ(progress.compute, (2.0 / 3 + 2) * 2);
  EXPECT_DOUBLE_EQ(progress.communication, 1.2 * 4);
  EXPECT_DOUBLE_EQ(progress.compute_slowdown(), 6 / (8.0 / 3 * 2));
  EXPECT_DOUBLE_EQ(progress.communication_slowdown(), 1.25);
}

// Beside a computation they take 1.25 times as long, and 3 s more.
TEST(CollectiveCaseTest, AWaitForATurnIsWhatBothSizesLoseAlike) {
  EXPECT_DOUBLE_EQ(TurnOf({.seconds = 2, .slowdown = 2.75}, {.seconds = 20, .slowdown = 1.4}), 3);
}

TEST(CollectiveCaseTest, NoWaitMakesACollectiveFasterThanAlone) {
  EXPECT_EQ(TurnOf({.seconds = 2, .slowdown = 1.1}, {.seconds = 20, .slowdown = 1.4}), 0);
  // The line through both would have the larger one be faster without the wait.
  EXPECT_EQ(TurnOf({.seconds = 2, .slowdown = 2}, {.seconds = 20, .slowdown = 1.05}), 2);
}

// A fifth of its 20 s the collective waits, so the fifth of its speed that the computation has lost
// is a quarter of it in the rest.
TEST(CollectiveCaseTest, AComputationLosesNothingBesideAWait) {
  const Contention of = ContentionOf(1.25, {.seconds = 10, .slowdown = 2}, 4);
  EXPECT_DOUBLE_EQ(of.compute, 0.25);
  EXPECT_DOUBLE_EQ(of.communication, 1 - 10.0 / 16);
  EXPECT_EQ(of.turn_seconds, 4);
  EXPECT_DOUBLE_EQ(ContentionOf(1.25, {.seconds = 10, .slowdown = 2}, 0).compute, 0.2);
}

TEST(CollectiveCaseTest, NothingIsLostByWhatIsFasterBesideAnother) {
  const Contention of = ContentionOf(0.9, {.seconds = 10, .slowdown = 0.95}, 0);
  EXPECT_EQ(of.compute, 0);
  EXPECT_EQ(of.communication, 0);
}

// Noise can make a wait as long as all of the collective, or longer.
TEST(CollectiveCaseTest, SomeSpeedIsLeft) {
  for (double turn : {9.9, 10.0, 10.1, 40.0}) {
    EXPECT_EQ(ContentionOf(2, {.seconds = 10, .slowdown = 1}, turn).compute, 0.95) << turn;
    EXPECT_EQ(ContentionOf(1, {.seconds = 10, .slowdown = 1}, turn).compute, 0) << turn;
  }
}

TEST(CollectiveCaseTest, CollectivesOfNearlyTheSameTimeTellNoWait) {
  EXPECT_FALSE(AreOfTwoSizes(2, 2));
  EXPECT_FALSE(AreOfTwoSizes(2, 2.9));
  EXPECT_TRUE(AreOfTwoSizes(2, 3));
}

TEST(CollectiveCaseTest, ASideThatDidNothingWasNotSlower) {
  EXPECT_EQ((Progress{.seconds = 2, .compute = 0, .communication = 2}.compute_slowdown()), 1);
  EXPECT_EQ((Progress{.seconds = 2, .compute = 2, .communication = 0}.communication_slowdown()), 1);
}

}  // namespace
}  // namespace stretto::bench
