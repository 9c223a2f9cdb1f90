// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/backend_cuda/issue_plan.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parity/specs.h"
#include "tests/worker/engine/ids.h"
#include "worker/engine/schedule/plan.h"

namespace stretto::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Op OpOn(LaneId lane, std::vector<OpId> waits = {}, OpKind kind = OpKind::kZero,
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

// Compute of one rank only; then a collective; and one that the other rank does not have.
TEST(IssuePlanTest, RanksTakeTurnsAndMeetAtCollectives) {
  const Op reduce = OpOn(1, {0}, OpKind::kAllReduce);
  const StepProgram a = StepOf({{OpOn(0), reduce, OpOn(0, {1})}}),
                    b = StepOf({{OpOn(0), OpOn(0), OpOn(1, {1}, OpKind::kAllReduce), OpOn(0)}}),
                    c = StepOf({{OpOn(0)}});
  const Program pa = Expand(a), pb = Expand(b), pc = Expand(c);
  const std::vector<RankProgram> alike = {{&a, &pa}, {&b, &pb}}, unlike = {{&a, &pa}, {&c, &pc}};
  const IssuePlan plan = *PlanIssue(alike, true);
  std::vector<std::vector<RankOp>> order;
  for (const Item& item : plan.instances[0].items) order.push_back(item.ops);
  EXPECT_THAT(order, ElementsAre(ElementsAre(RankOp{0, 0}), ElementsAre(RankOp{1, 0}),
                                 ElementsAre(RankOp{1, 1}), ElementsAre(RankOp{0, 1}, RankOp{1, 2}),
                                 ElementsAre(RankOp{0, 2}), ElementsAre(RankOp{1, 3})));
  EXPECT_THAT(plan.instances[0].items[3].joins, ElementsAre(0, 2));
  EXPECT_EQ(PlanIssue(unlike, true).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(IssuePlanTest, RefusesWhatCannotBeIssuedInOrder) {
  StepProgram step = StepOf({{OpOn(0), OpOn(1)}});
  Program program = Expand(step);
  program.ops[0].waits = {1};
  EXPECT_EQ(PlanWith(step, program).status().code(), absl::StatusCode::kInvalidArgument);
  program.ops.pop_back();
  EXPECT_EQ(PlanWith(step, program).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(IssuePlanTest, ALongStepHasAsFewShapesAsAShortOne) {
  Layout layout = {.schedule = "domino_row", .slices = {2, 2}};
  std::vector<size_t> shapes;
  for (int micro_batches : {6, 12}) {
    layout.micro_batches = micro_batches;
    const RankPlan plan = *BuildPlan(parity::SpecOf(layout), 0);
    std::set<std::vector<int>> found;
    const IssuePlan issued = *PlanWith(plan.step, plan.program);
    for (const IssuedInstance& instance : issued.instances)
      found.insert(ShapeOf(instance, AddressPeriod(plan.step)));
    shapes.push_back(found.size());
  }
  EXPECT_EQ(shapes[0], shapes[1]);
}

}  // namespace
}  // namespace stretto::cuda
