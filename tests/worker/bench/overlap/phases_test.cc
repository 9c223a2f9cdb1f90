// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/overlap/phases.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/exec/intervals.h"
#include "tests/worker/engine/program/programs.h"

namespace stretto::bench {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;

// seconds    0   1   2   3   4   5   6   7   8   9
// compute    |z|.|a      |b          |c  |   |o  |
// comm.tp            |r          |   |q      |
constexpr char kStep[] =
    "program rank=0 world=2\n"
    "group tp 0,1\n"
    "lane compute\n"
    "lane comm.tp\n"
    "buffer %0 x f32 4 input\n"
    "0 compute zero z opt out=%0\n"
    "1 compute zero a fwd out=%0\n"
    "2 comm.tp all_reduce r fwd in=%0 out=%0 on=tp\n"
    "3 compute zero b bwd out=%0\n"
    "4 comm.tp all_reduce q bwd in=%0 out=%0 on=tp\n"
    "5 compute zero c bwd out=%0\n"
    "6 compute zero o opt out=%0\n";

std::vector<Interval> StepIntervals() {
  return {At(0, 0.5), At(1, 3), At(2, 5), At(3, 6), At(6, 8), At(6.0, 7.0), At(8, 9)};
}

TEST(PhasesTest, ForwardEndsWithItsLastOperationOnAnyLane) {
  const StepTimes times = TimesOf(ProgramOf(kStep), StepIntervals(), 0);

  EXPECT_DOUBLE_EQ(times.forward.seconds, 4);   // 1 to 5: the collective is the last
  EXPECT_DOUBLE_EQ(times.backward.seconds, 3);  // 5 to 8
  EXPECT_DOUBLE_EQ(times.step.seconds, 7);
  EXPECT_DOUBLE_EQ(times.optimizer, 2);  // clearing, the update, and the gap before
}

// seconds    0   1   2   3   4   5   6   7   8
// compute    |f0 |b0 |       |f1     |b1 |o  |
// comm.tp        |   |r0     |   |r1     |
constexpr char kTwoMicroBatches[] =
    "program rank=0 world=2\n"
    "group tp 0,1\n"
    "lane compute\n"
    "lane comm.tp\n"
    "buffer %0 x f32 4 input\n"
    "0 compute zero f fwd mb0 out=%0\n"
    "1 compute zero b bwd mb0 out=%0\n"
    "2 comm.tp all_reduce r bwd mb0 in=%0 out=%0 on=tp\n"
    "3 compute zero f fwd mb1 out=%0\n"
    "4 comm.tp all_reduce r fwd mb1 in=%0 out=%0 on=tp\n"
    "5 compute zero b bwd mb1 out=%0\n"
    "6 compute zero o opt out=%0\n";

TEST(PhasesTest, PhasesAreSumsOverMicroBatches) {
  const StepTimes times =
      TimesOf(ProgramOf(kTwoMicroBatches),
              {{At(0, 1), At(1, 2), At(2, 4), At(4, 6), At(5, 7), At(6, 7), At(7, 8)}}, 0);

  EXPECT_DOUBLE_EQ(times.forward.seconds, 1 + 3);   // 0 to 1, 4 to 7
  EXPECT_DOUBLE_EQ(times.backward.seconds, 3 + 0);  // 1 to 4; b1 ends with forward
  EXPECT_DOUBLE_EQ(times.step.seconds, 7);
  EXPECT_DOUBLE_EQ(times.optimizer, 1);
  EXPECT_DOUBLE_EQ(times.forward.communication, 2);
  EXPECT_DOUBLE_EQ(times.backward.communication, 2);
}

// f0 and b1 are the ends: b0 and f1 are between them.
TEST(PhasesTest, PassesWithPartnersAreAllButTheFirstAndTheLast) {
  const Program program = ProgramOf(kTwoMicroBatches);
  const StepTimes times = TimesOf(
      program, {{At(0, 1), At(1, 2), At(2, 4), At(4, 6), At(5, 7), At(6, 9), At(9, 10)}}, 0);

  EXPECT_DOUBLE_EQ(times.paired.seconds, 7 - 1);
  EXPECT_DOUBLE_EQ(times.paired.communication, 4);
  EXPECT_DOUBLE_EQ(times.paired.hidden, 2);  // r1 under f1, then under b1

  Program one = program;
  for (Op& op : one.ops) op.tag.micro_batch = 0;
  EXPECT_DOUBLE_EQ(
      TimesOf(one, {{At(0, 1), At(1, 2), At(2, 4), At(4, 6), At(5, 7), At(6, 9), At(9, 10)}}, 0)
          .paired.seconds,
      0);
}

// A sum over micro-batches has no number of one.
TEST(PhasesTest, BackwardOfNoMicroBatchIsOfTheLast) {
  Program program = ProgramOf(kTwoMicroBatches);
  program.ops[5].tag.micro_batch = -1;

  EXPECT_FALSE(MixesPhases(program));
  program.ops[1].tag.micro_batch = -1;
  EXPECT_TRUE(MixesPhases(program));
}

TEST(PhasesTest, ForwardOfTheNextMicroBatchDoesNotMixThePhases) {
  Program program = ProgramOf(kTwoMicroBatches);
  EXPECT_FALSE(MixesPhases(program));

  std::swap(program.ops[1].tag, program.ops[3].tag);

  EXPECT_TRUE(MixesPhases(program));
}

TEST(PhasesTest, CommunicationIsHiddenByComputationOfAnyPhase) {
  const StepTimes times = TimesOf(ProgramOf(kStep), StepIntervals(), 0);

  EXPECT_DOUBLE_EQ(times.forward.communication, 3);
  EXPECT_DOUBLE_EQ(times.forward.hidden, 3);  // under a, then under b of backward
  EXPECT_DOUBLE_EQ(times.backward.communication, 2);
  EXPECT_DOUBLE_EQ(times.backward.hidden, 1);
  EXPECT_DOUBLE_EQ(times.backward.exposed_share(), 0.5);
  EXPECT_DOUBLE_EQ(times.step.exposed_share(), 0.2);
}

TEST(PhasesTest, WithoutCommunicationNothingIsExposed) {
  EXPECT_DOUBLE_EQ(PhaseTimes{.seconds = 1}.exposed_share(), 0);
}

TEST(PhasesTest, CollectivesAtTheSameTimeCountOnce) {
  std::vector<Interval> intervals = StepIntervals();
  intervals[4] = At(4, 8);  // q beside r

  EXPECT_DOUBLE_EQ(TimesOf(ProgramOf(kStep), intervals, 0).step.communication, 6);
}

TEST(PhasesTest, ShareUnderTheOtherSideIsOfEachOperation) {
  EXPECT_THAT(SharesUnderOtherSide(ProgramOf(kStep), StepIntervals()),
              ElementsAre(DoubleEq(0), DoubleEq(0.5), DoubleEq(1), DoubleEq(2.0 / 3), DoubleEq(0.5),
                          DoubleEq(1), DoubleEq(0)));
}

TEST(PhasesTest, ForwardAfterBackwardOnALaneMixesThePhases) {
  Program program = ProgramOf(kStep);
  EXPECT_FALSE(MixesPhases(program));

  program.ops[5].tag.phase = Phase::kForward;

  EXPECT_TRUE(MixesPhases(program));
}

// Nothing waits for the loss, so schedules put it where they have time.
TEST(PhasesTest, TheLossIsNoPartOfForward) {
  Program program = ProgramOf(kStep);
  program.ops[5].tag.phase = Phase::kForward;
  program.ops[5].kind = OpKind::kCrossEntropyLoss;

  EXPECT_FALSE(MixesPhases(program));
  EXPECT_DOUBLE_EQ(TimesOf(program, StepIntervals(), 0).forward.seconds, 4);
}

}  // namespace
}  // namespace stretto::bench
