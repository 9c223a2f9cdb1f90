// SPDX-License-Identifier: Apache-2.0
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/ids.h"
#include "worker/engine/program/verify.h"
#include "worker/engine/schedule/passes.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Op OpWith(OpKind kind, BufferList in, BufferList out) {
  Op op;
  op.kind = kind;
  if (IsCollective(kind)) op.group = 0;
  op.in = std::move(in);
  op.out = std::move(out);
  op.attributes.resize(InfoOf(kind).attributes.size());
  return op;
}

// Three buffers that the host fills, the last of half the size; a unit that is run twice.
StepProgram TwiceOf(IdVector<OpId, Op> ops) {
  StepProgram step;
  step.world_size = 2;
  step.groups = {{"tp", {0, 1}}};
  step.lanes = {Lane{"serial"}};
  step.buffers = {{.name = "x", .shape = {4, 2}, .arena = ArenaClass::kInput},
                  {.name = "y", .shape = {4, 2}, .arena = ArenaClass::kInput},
                  {.name = "own", .shape = {2, 2}, .arena = ArenaClass::kInput}};
  step.units = {{"forward", std::move(ops)}};
  step.instances = {{.unit = 0, .micro_batches = {0}, .waits = {}},
                    {.unit = 0, .micro_batches = {1}, .waits = {}}};
  return step;
}

void Assign(StepProgram* step) {
  ASSERT_TRUE(AssignLanesAndWaits({}, step).ok());
  EXPECT_TRUE(Verify(Expand(*step)).ok()) << Verify(Expand(*step));
}

TEST(LanesAndWaitsTest, ACollectiveWaitsForAReadOfWhatItReduces) {
  StepProgram step =
      TwiceOf({OpWith(OpKind::kGelu, {0}, {1}), OpWith(OpKind::kAllReduce, {0}, {0})});
  Assign(&step);
  EXPECT_EQ(step.lanes[1].name, "comm.tp");
  EXPECT_EQ(step.units[0].ops[1].lane, 1);
  EXPECT_THAT(ValuesOf(step.units[0].ops[1].waits), ElementsAre(0));
  // The second run reads what the first one's collective wrote.
  EXPECT_THAT(step.instances[0].waits, IsEmpty());
  ASSERT_EQ(step.instances[1].waits.size(), 1u);
  EXPECT_EQ(step.instances[1].waits[0].op, 0);
  EXPECT_EQ(step.instances[1].waits[0].instance, 0);
  EXPECT_EQ(step.instances[1].waits[0].producer, 1);
}

TEST(LanesAndWaitsTest, AGatherIsInUseOnBothEndsUntilItIsDone) {
  StepProgram step = TwiceOf({OpWith(OpKind::kZero, {}, {2}), OpWith(OpKind::kAllGather, {2}, {1}),
                              OpWith(OpKind::kZero, {}, {2}), OpWith(OpKind::kGelu, {1}, {0})});
  Assign(&step);
  const std::vector<Op>& ops = step.units[0].ops;
  EXPECT_THAT(ValuesOf(ops[1].waits), ElementsAre(0));
  EXPECT_THAT(ValuesOf(ops[2].waits), ElementsAre(1));  // overwrites what it reads
  EXPECT_THAT(ops[3].waits, IsEmpty());                 // reads what it wrote: lane order covers it
  EXPECT_THAT(step.instances[1].waits, IsEmpty());
}

TEST(LanesAndWaitsTest, AScatterWaitsForWhoReadItsLastResult) {
  StepProgram step =
      TwiceOf({OpWith(OpKind::kReduceScatter, {0}, {2}), OpWith(OpKind::kSumSquares, {2}, {1})});
  step.buffers[1].shape = {1};
  Assign(&step);
  EXPECT_THAT(ValuesOf(step.units[0].ops[1].waits), ElementsAre(0));
  ASSERT_EQ(step.instances[1].waits.size(), 1u);
  EXPECT_EQ(step.instances[1].waits[0].op, 0);
  EXPECT_EQ(step.instances[1].waits[0].producer, 1);
}

TEST(LanesAndWaitsTest, WhatLaneOrderCoversNeedsNoWait) {
  // The gelu waits for the collective; the zero after it on its lane need not wait again.
  StepProgram step = TwiceOf({OpWith(OpKind::kAllReduce, {0}, {0}), OpWith(OpKind::kGelu, {0}, {1}),
                              OpWith(OpKind::kZero, {}, {0})});
  Assign(&step);
  EXPECT_THAT(ValuesOf(step.units[0].ops[1].waits), ElementsAre(0));
  EXPECT_THAT(step.units[0].ops[2].waits, IsEmpty());
}

TEST(LanesAndWaitsTest, IndependentBuffersNeedNoWait) {
  StepProgram step =
      TwiceOf({OpWith(OpKind::kAllReduce, {0}, {0}), OpWith(OpKind::kZero, {}, {1})});
  Assign(&step);
  EXPECT_THAT(step.units[0].ops[1].waits, IsEmpty());
  EXPECT_THAT(step.instances[1].waits, IsEmpty());
}

TEST(LanesAndWaitsTest, WithoutCollectivesThereIsOneLane) {
  StepProgram step = TwiceOf({OpWith(OpKind::kGelu, {0}, {1})});
  Assign(&step);
  ASSERT_EQ(step.lanes.size(), 1u);
  EXPECT_EQ(step.lanes[0].name, "compute");
}

TEST(SerialiseLanesTest, NothingRunsBesideACollective) {
  StepProgram step = TwiceOf({OpWith(OpKind::kZero, {}, {1}), OpWith(OpKind::kAllReduce, {0}, {0}),
                              OpWith(OpKind::kZero, {}, {1})});
  Assign(&step);
  EXPECT_THAT(step.units[0].ops[1].waits, IsEmpty());
  ASSERT_TRUE(SerialiseLanes({}, &step).ok());
  EXPECT_THAT(ValuesOf(step.units[0].ops[1].waits), ElementsAre(0));
  EXPECT_THAT(ValuesOf(step.units[0].ops[2].waits), ElementsAre(1));
}

TEST(HoldBarriersTest, EachLaneWaitsForWhatIsInFrontOfTheBarrier) {
  StepProgram step = TwiceOf({OpWith(OpKind::kZero, {}, {1}), OpWith(OpKind::kAllReduce, {0}, {0}),
                              OpWith(OpKind::kZero, {}, {1}), OpWith(OpKind::kAllReduce, {2}, {2}),
                              OpWith(OpKind::kZero, {}, {1}), OpWith(OpKind::kZero, {}, {1})});
  Assign(&step);
  IdVector<OpId, Op>& ops = step.units[0].ops;
  for (const Op& op : ops) EXPECT_THAT(op.waits, IsEmpty());
  ops[3].barrier = true;
  ASSERT_TRUE(HoldBarriers({}, &step).ok());
  EXPECT_TRUE(Verify(Expand(step)).ok()) << Verify(Expand(step));
  EXPECT_THAT(ValuesOf(ops[2].waits), IsEmpty());
  EXPECT_THAT(ValuesOf(ops[3].waits), ElementsAre(2));
  EXPECT_THAT(ValuesOf(ops[4].waits), ElementsAre(1));
  EXPECT_THAT(ValuesOf(ops[5].waits), IsEmpty());  // its lane does
  EXPECT_FALSE(ops[3].barrier);
}

}  // namespace
}  // namespace stretto
