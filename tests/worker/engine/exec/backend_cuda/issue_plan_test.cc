// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/backend_cuda/issue_plan.h"

#include <set>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parity/specs.h"
#include "tests/worker/engine/ids.h"
#include "worker/engine/exec/backend_cuda/unit_ops.h"
#include "worker/engine/schedule/plan.h"

namespace stretto::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Op OpOn(LaneId lane, WaitList waits = {}, OpKind kind = OpKind::kZero,
        Phase phase = Phase::kForward) {
  Op op;
  op.kind = kind;
  op.lane = lane;
  op.tag.phase = phase;
  op.waits = std::move(waits);
  return op;
}

// Two lanes; every unit is one instance.
StepProgram StepOf(std::vector<IdVector<OpId, Op>> units) {
  StepProgram step;
  step.lanes = {Lane{"compute"}, Lane{"comm"}};
  for (IdVector<OpId, Op>& ops : units) {
    step.instances.push_back({step.units.next(), {}, {}});
    step.units.push_back({"unit", std::move(ops)});
  }
  return step;
}

absl::StatusOr<IssuePlan> PlanWith(const StepProgram& step, const Program& program,
                                   bool leave_room = true) {
  return PlanIssue(std::vector<RankProgram>{{&step, &program}}, leave_room);
}
IssuePlan PlanOf(const StepProgram& step, bool leave_room = true) {
  return *PlanWith(step, Expand(step), leave_room);
}

std::vector<std::vector<int>> SegmentsOf(const IssuePlan& plan) {
  std::vector<std::vector<int>> segments;
  for (const Segment& segment : plan.segments) {
    segments.emplace_back();
    for (const RankOp& of : segment.ops) segments.back().push_back(of.op.value());
  }
  return segments;
}

TEST(IssuePlanTest, ALaneWithoutCrossingsIsOneSegment) {
  const IssuePlan plan = PlanOf(StepOf({{OpOn(0), OpOn(0), OpOn(0)}}));
  EXPECT_THAT(SegmentsOf(plan), ElementsAre(ElementsAre(0, 1, 2)));
  EXPECT_EQ(plan.marks, 2);
  EXPECT_GE(plan.instances[0].items[0].begin_mark, 0);
  EXPECT_EQ(plan.instances[0].items[1].begin_mark, -1);
  EXPECT_EQ(plan.instances[0].items[1].end_mark, -1);
  EXPECT_GE(plan.instances[0].items[2].end_mark, 0);
}

TEST(IssuePlanTest, SegmentsEndWhereWaitsLeadInOrOut) {
  // 1 is waited for by 3, 4 waits for 3.
  const IssuePlan plan =
      PlanOf(StepOf({{OpOn(0), OpOn(0), OpOn(0), OpOn(1, {1}), OpOn(0, {3}), OpOn(0)}}));
  EXPECT_THAT(SegmentsOf(plan),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2), ElementsAre(3), ElementsAre(4, 5)));
  const std::vector<Item>& ops = plan.instances[0].items;
  EXPECT_TRUE(ops[1].awaited);
  EXPECT_THAT(ops[3].joins, ElementsAre(1));
  EXPECT_THAT(ops[4].joins, ElementsAre(3));
  // Nothing lies between 1 and 2, so that one mark is both.
  EXPECT_EQ(plan.segments[1].begin_mark, plan.segments[0].end_mark);
  EXPECT_NE(plan.segments[3].begin_mark, plan.segments[1].end_mark);
}

TEST(IssuePlanTest, ASegmentIsOfOneKindAndPhase) {
  const IssuePlan plan = PlanOf(StepOf({{OpOn(0), OpOn(0, {}, OpKind::kAllReduce), OpOn(0),
                                         OpOn(0, {}, OpKind::kZero, Phase::kBackward)}}));
  EXPECT_THAT(SegmentsOf(plan),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2), ElementsAre(3)));
}

// One mark is the end of a call and the begin of the next.
TEST(IssuePlanTest, ACollectiveIsASegmentOfItsOwn) {
  const OpKind reduce = OpKind::kAllReduce;
  const IssuePlan plan =
      PlanOf(StepOf({{OpOn(1, {}, reduce), OpOn(1, {}, reduce), OpOn(1, {}, reduce)}}));
  EXPECT_THAT(SegmentsOf(plan), ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2)));
  EXPECT_EQ(plan.marks, 4);
  EXPECT_EQ(plan.segments[1].begin_mark, plan.segments[0].end_mark);
  EXPECT_EQ(plan.segments[2].begin_mark, plan.segments[1].end_mark);
  for (const Item& item : plan.instances[0].items) EXPECT_GE(item.end_mark, 0);
}

TEST(IssuePlanTest, InstancesAreOrderedByMarksOfTheirLanes) {
  StepProgram step = StepOf({{OpOn(0), OpOn(1, {0})}, {OpOn(0), OpOn(1, {0}), OpOn(0)}});
  step.instances[1].waits = {{.op = 2, .instance = 0, .producer = 1}};
  const IssuePlan plan = PlanOf(step);
  const std::vector<Item>&first = plan.instances[0].items, &second = plan.instances[1].items;
  EXPECT_THAT(first[0].carried, IsEmpty());
  EXPECT_THAT(second[0].carried, ElementsAre(first[0].end_mark));
  EXPECT_THAT(second[1].carried, ElementsAre(first[1].end_mark));
  EXPECT_THAT(second[1].joins, ElementsAre(0));
  EXPECT_THAT(second[2].carried, ElementsAre(first[1].end_mark));
  EXPECT_THAT(ValuesOf(plan.instances[1].lanes), ElementsAre(0, 1));
}

std::vector<int> UnderCollectives(const IssuePlan& plan) {
  std::vector<int> under;
  for (const IssuedInstance& instance : plan.instances) {
    for (const Item& item : instance.items) {
      if (item.under_collective) under.push_back(item.ops[0].op.value());
    }
  }
  return under;
}

TEST(IssuePlanTest, WhatIsNotOrderedWithACollectiveMayRunUnderIt) {
  const OpKind reduce = OpKind::kAllReduce;
  // 0 comes before the collectives 2 and 5, 4 between them, and 7 after them.
  EXPECT_THAT(UnderCollectives(
                  PlanOf(StepOf({{OpOn(0), OpOn(0), OpOn(1, {0}, reduce), OpOn(0), OpOn(0, {2}),
                                  OpOn(1, {4}, reduce), OpOn(0), OpOn(0, {5})}}))),
              ElementsAre(1, 3, 6));
  // Where no room is left for collectives, nobody asks.
  const StepProgram step = StepOf({{OpOn(0), OpOn(1, {}, reduce), OpOn(0)}});
  EXPECT_THAT(UnderCollectives(PlanOf(step)), ElementsAre(0, 2));
  EXPECT_THAT(UnderCollectives(PlanOf(step, false)), ElementsAre());
  // A lane does not run under itself.
  EXPECT_THAT(UnderCollectives(PlanOf(StepOf({{OpOn(0), OpOn(1), OpOn(0, {}, reduce), OpOn(0)}}))),
              ElementsAre(1));
}

// A program of one of two ranks with group tp, whose lane is the second.
StepProgram StepOfRank(Rank rank, std::vector<IdVector<OpId, Op>> units) {
  StepProgram step = StepOf(std::move(units));
  step.rank = rank;
  step.world_size = 2;
  step.groups = {Group{"tp", {0, 1}}};
  step.buffers = {Buffer{.name = "x", .shape = {4}}};
  return step;
}

Op CallOn(LaneId lane, WaitList waits, OpKind kind = OpKind::kAllReduce) {
  Op op = OpOn(lane, std::move(waits), kind);
  op.group = 0;
  if (kind != OpKind::kRecv) op.in = {0};
  if (kind != OpKind::kSend) op.out = {0};
  return op;
}

std::vector<std::vector<RankOp>> ItemsOf(const IssuedInstance& instance) {
  std::vector<std::vector<RankOp>> items;
  for (const Item& item : instance.items) items.push_back(item.ops);
  return items;
}

// Compute of one rank only; then a collective; and one that the other rank does not have.
TEST(IssuePlanTest, RanksTakeTurnsAndMeetAtCollectives) {
  const StepProgram a = StepOfRank(0, {{OpOn(0), CallOn(1, {0}), OpOn(0, {1})}}),
                    b = StepOfRank(1, {{OpOn(0), OpOn(0), CallOn(1, {1}), OpOn(0)}}),
                    c = StepOfRank(1, {{OpOn(0)}});
  const Program pa = Expand(a), pb = Expand(b), pc = Expand(c);
  const std::vector<RankProgram> alike = {{&a, &pa}, {&b, &pb}}, unlike = {{&a, &pa}, {&c, &pc}};
  const IssuePlan plan = *PlanIssue(alike, true);
  ASSERT_EQ(plan.instances.size(), 1u);
  EXPECT_THAT(ItemsOf(plan.instances[0]),
              ElementsAre(ElementsAre(RankOp{0, 0}), ElementsAre(RankOp{1, 0}),
                          ElementsAre(RankOp{1, 1}), ElementsAre(RankOp{0, 1}, RankOp{1, 2}),
                          ElementsAre(RankOp{1, 3}), ElementsAre(RankOp{0, 2})));
  EXPECT_THAT(plan.instances[0].items[3].joins, ElementsAre(0, 2));
  const absl::Status refused = PlanIssue(unlike, true).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("on rank 0, for which nothing on the device comes"));
}

// The second rank receives in its second instance what the first one sends in its first.
TEST(IssuePlanTest, InstancesThatNeedEachOtherAreIssuedTogether) {
  const StepProgram a = StepOfRank(0, {{CallOn(1, {}, OpKind::kSend)}, {OpOn(0)}, {OpOn(0)}}),
                    b = StepOfRank(1, {{OpOn(0)}, {CallOn(1, {}, OpKind::kRecv)}, {OpOn(0)}});
  const Program pa = Expand(a), pb = Expand(b);
  const IssuePlan plan = *PlanIssue(std::vector<RankProgram>{{&a, &pa}, {&b, &pb}}, true);
  ASSERT_EQ(plan.instances.size(), 2u);
  EXPECT_THAT(ItemsOf(plan.instances[0]),
              ElementsAre(ElementsAre(RankOp{1, 0}), ElementsAre(RankOp{0, 0}, RankOp{1, 1}),
                          ElementsAre(RankOp{0, 1})));
  EXPECT_EQ(plan.instances[1].items.size(), 2u);
}

TEST(IssuePlanTest, RanksOfAGroupThatIsElsewhereAreRefused) {
  const StepProgram a = StepOfRank(0, {{OpOn(0)}}), b = StepOfRank(2, {{OpOn(0)}});
  const Program pa = Expand(a), pb = Expand(b);
  EXPECT_EQ(PlanIssue(std::vector<RankProgram>{{&a, &pa}, {&b, &pb}}, true).status(),
            absl::InvalidArgumentError("ranks of the device: found no rank 1 of group tp with "
                                       "ranks 0,1, expected all of them"));
}

TEST(IssuePlanTest, RefusesWhatCannotBeIssuedInOrder) {
  StepProgram step = StepOf({{OpOn(0), OpOn(1)}});
  Program program = Expand(step);
  program.ops[0].waits = {1};
  EXPECT_EQ(PlanWith(step, program).status().code(), absl::StatusCode::kInvalidArgument);
  program.ops.pop_back();
  EXPECT_EQ(PlanWith(step, program).status().code(), absl::StatusCode::kInvalidArgument);
}

struct Issued {
  StepProgram step;
  IssuePlan plan;
  std::set<std::vector<int>> shapes;
};

Issued IssuedOf(const Layout& layout, Rank rank) {
  const RankPlan of_rank = *BuildPlan(parity::SpecOf(layout), rank);
  Issued issued = {of_rank.step, *PlanWith(of_rank.step, of_rank.program), {}};
  const std::vector<RankProgram> ranks = {{&of_rank.step, &of_rank.program}};
  for (const IssuedInstance& instance : issued.plan.instances)
    issued.shapes.insert(ShapeOf(ranks, issued.plan, instance));
  return issued;
}

TEST(IssuePlanTest, ALongStepHasAsFewShapesAsAShortOne) {
  Layout domino = {.schedule = "domino_row", .slices = {2, 2}};
  // Buffers with one, two and three slots; a graph serves those micro-batches for which all agree.
  Layout stage = domino;
  stage.pp_size = 2;
  for (Layout& layout : std::vector<Layout>{domino, stage}) {
    std::vector<size_t> shapes;
    for (int micro_batches : {16, 32}) {
      layout.micro_batches = micro_batches;
      shapes.push_back(IssuedOf(layout, 0).shapes.size());
    }
    EXPECT_EQ(shapes[0], shapes[1]);
  }
}

// A stage loads tokens, or stores losses, only for the passes that use them.
TEST(IssuePlanTest, StagesTheMicroBatchesWhoseBuffersAnInstanceUses) {
  const Layout layout = {.tp_size = 1, .pp_size = 2, .micro_batches = 3};
  const Issued issued = IssuedOf(layout, 1);
  std::vector<int> used, written;
  for (const IssuedInstance& instance : issued.plan.instances) {
    used.insert(used.end(), instance.micro_batches.begin(), instance.micro_batches.end());
    written.insert(written.end(), instance.written.begin(), instance.written.end());
    const Item& first = instance.items[0];
    const OpKind kind = UnitOps(issued.step).of(first.ops[0].op).kind;
    if (kind == OpKind::kRecv) {
      EXPECT_THAT(instance.micro_batches, IsEmpty());
    }
  }
  EXPECT_THAT(written, ElementsAre(0, 1, 2));
  EXPECT_THAT(used, ElementsAre(0, 0, 1, 1, 2, 2));  // forward and backward
  EXPECT_EQ(issued.plan.staging_slots, 1);
}

}  // namespace
}  // namespace stretto::cuda
