// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/program/issue_order.h"

#include <algorithm>
#include <set>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/spec/pipelines.h"
#include "tests/worker/engine/ids.h"
#include "tests/worker/engine/program/programs.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/layout/layout.h"
#include "worker/engine/program/skeleton.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Op& OpOf(const StepProgram& step, InstanceId instance, OpId op) {
  return step.units[step.instances[instance].unit].ops[op];
}

Layout Stages(int pp_size, const std::string& order, int micro_batches) {
  const Layout layout{.tp_size = 1,
                      .pp_size = pp_size,
                      .slices = {1},
                      .micro_batches = micro_batches,
                      .layers = pp_size};
  return InOrder(layout, order);
}

// Stages, in every order, with every other axis that adds communication or moves it.
std::vector<Layout> Pipelines() {
  std::vector<Layout> layouts;
  for (const std::string& order : PipelineNames()) {
    for (int pp_size : {2, 4}) {
      layouts.push_back(Stages(pp_size, order, 7));
      for (const char* schedule : {"megatron_async", "domino_row"}) {
        Layout layout = LayoutOf(schedule, pp_size + 1);
        layout.pp_size = pp_size;
        layout.micro_batches = 5;
        layout = InOrder(layout, order);
        layouts.push_back(layout);
        if (pp_size > 2) continue;
        layout.dp_size = 2;
        layout.zero = 1;
        layout.other_options = true;  // a head of its own
        layouts.push_back(layout);
      }
    }
  }
  Layout warm = Stages(3, "1f1b", 9);
  warm.warm_up = {7, 4, 1};
  layouts.push_back(warm);
  warm.wgrad_delay = WgradDelay::kSend;
  layouts.push_back(warm);
  return layouts;
}

TEST(IssueOrderTest, IsProgramOrderWithoutReceives) {
  const StepProgram step = PlanOf(Domino({1, 1}, 3)).step;
  const std::vector<IssuedRun> order = IssueOrder(step);
  ASSERT_EQ(order.size(), step.instances.size());
  for (InstanceId i : step.instances.ids()) {
    const IssuedRun& run = order[i.position()];
    EXPECT_EQ(run.instance, i);
    EXPECT_EQ(run.ops.size(), step.units[step.instances[i].unit].ops.size());
    EXPECT_TRUE(std::is_sorted(run.ops.begin(), run.ops.end()));
  }
}

// The middle of three stages: passes B, F, B, F ... in the steady state.
TEST(IssueOrderTest, AReceiveComesAPassEarly) {
  const StepProgram step = PlanOf(Stages(3, "1f1b", 6), 1).step;
  std::vector<std::string> order;
  for (const IssuedRun& run : IssueOrder(step)) {
    const Instance& instance = step.instances[run.instance];
    if (instance.micro_batches.empty()) continue;
    const OpKind kind = OpOf(step, run.instance, run.ops[0]).kind;
    if (kind == OpKind::kSend) continue;
    order.push_back((kind == OpKind::kRecv ? "recv " : "") +
                    step.units[instance.unit].name.substr(0, 1) +
                    std::to_string(instance.micro_batches[0]));
  }
  EXPECT_THAT(order, ElementsAre("recv f0", "recv f1", "f0",                   //
                                 "recv b0", "recv f2", "f1", "recv b1", "b0",  //
                                 "recv f3", "f2", "recv b2", "b1",             //
                                 "recv f4", "f3", "recv b3", "b2",             //
                                 "recv f5", "f4", "recv b4", "b3", "f5", "recv b5", "b4", "b5"));
}

TEST(IssueOrderTest, TransfersAreRunsOfTheirOwn) {
  const StepProgram step = PlanOf(Stages(3, "1f1b", 6), 1).step;
  int transfers = 0;
  for (const IssuedRun& run : IssueOrder(step)) {
    for (OpId op : run.ops) EXPECT_EQ(IsTransfer(OpOf(step, run.instance, op).kind), run.transfers);
    transfers += run.transfers;
  }
  EXPECT_EQ(transfers, 6 * 4);
}

TEST(IssueOrderTest, HasEveryOperationBehindWhatItWaitsForAndInTheOrderOfItsLane) {
  for (const Layout& layout : Pipelines()) {
    SCOPED_TRACE(Describe(layout));
    const StepProgram step = PlanOf(layout, RankAt(SpecOf(layout), {.stage = 1})).step;
    std::set<std::pair<InstanceId, OpId>> done;
    IdVector<LaneId, std::pair<InstanceId, OpId>> last(step.lanes.size());
    for (const IssuedRun& run : IssueOrder(step)) {
      for (OpId op : run.ops) {
        const Op& of = OpOf(step, run.instance, op);
        for (OpId wait : of.waits) EXPECT_TRUE(done.contains({run.instance, wait}));
        for (const CarriedWait& wait : step.instances[run.instance].waits) {
          if (wait.op != op) continue;
          EXPECT_TRUE(done.contains({wait.instance, wait.producer}));
        }
        const std::pair<InstanceId, OpId> at = {run.instance, op};
        EXPECT_LT(last[of.lane], at);
        last[of.lane] = at;
        EXPECT_TRUE(done.insert(at).second);
      }
    }
    EXPECT_EQ(done.size(), Expand(step).ops.size());
  }
}

// Skeletons of all ranks, as they rehearse them on devices.
std::vector<Skeleton> SkeletonsOf(const Layout& layout, Variant variant = Variant::kSchedule) {
  const std::vector<RankPlan> plans = *BuildPlans(SpecOf(layout), variant);
  std::vector<Skeleton> skeletons;
  for (const RankPlan& plan : plans) {
    const std::vector<IssuedRun> order = IssueOrder(plan.step);
    skeletons.push_back(*SkeletonOf(WithRunsInTurn(plan.step, order, plan.program)));
    skeletons.back().issued = CallsInIssueOrder(plan.step, order);
  }
  return skeletons;
}

absl::Status Rehearse(const std::vector<Skeleton>& skeletons) {
  std::vector<const Skeleton*> all;
  for (const Skeleton& skeleton : skeletons) all.push_back(&skeleton);
  return VerifySkeletons(all);
}

Op OpOn(LaneId lane, OpKind kind, GroupId group = -1, WaitList waits = {}) {
  Op op;
  op.kind = kind;
  op.lane = lane;
  op.group = group;
  if (kind != OpKind::kRecv) op.in = {0};
  if (kind != OpKind::kSend) op.out = {0};
  op.waits = std::move(waits);
  return op;
}

// A receive and what waits for it hold up a graph behind them, whose collective the sender needs.
TEST(IssueOrderTest, ARunThatWaitsForTheWholeRunBeforeItMayBeADeadlock) {
  const LaneId compute = 0, tp_lane = 1, pp_lane = 2;
  const GroupId tp = 0, pp = 1;
  StepProgram receiver;
  receiver.world_size = 2;
  receiver.groups = {Group{"tp", {0, 1}}, Group{"pp.1-0", {1, 0}}};
  receiver.lanes = {Lane{"compute"}, Lane{"comm.tp"}, Lane{"comm.pp.1-0"}};
  receiver.buffers = {Buffer{.name = "x", .shape = {4}}};
  StepProgram sender = receiver;
  sender.rank = 1;
  receiver.units = {Unit{"receive", IdVector<OpId, Op>({OpOn(pp_lane, OpKind::kRecv, pp),
                                                        OpOn(compute, OpKind::kZero, -1, {0})})},
                    Unit{"reduce", IdVector<OpId, Op>({OpOn(tp_lane, OpKind::kAllReduce, tp)})}};
  receiver.instances = {Instance{0, {}, {}}, Instance{1, {}, {}}};
  sender.units = {Unit{"send", IdVector<OpId, Op>({OpOn(tp_lane, OpKind::kAllReduce, tp),
                                                   OpOn(pp_lane, OpKind::kSend, pp, {0})})}};
  sender.instances = {Instance{0, {}, {}}};
  for (bool in_turn : {false, true}) {
    std::vector<Skeleton> skeletons;
    for (const StepProgram* step : {&receiver, &sender}) {
      const Program program = Expand(*step);
      const std::vector<IssuedRun> order = IssueOrder(*step);
      skeletons.push_back(*SkeletonOf(in_turn ? WithRunsInTurn(*step, order, program) : program));
      skeletons.back().issued = CallsInIssueOrder(*step, order);
    }
    EXPECT_EQ(Rehearse(skeletons).ok(), !in_turn) << Rehearse(skeletons);
  }
}

TEST(IssueOrderTest, NoPipelineDeadlocksInIt) {
  for (const Layout& layout : Pipelines()) {
    for (Variant variant : {Variant::kSchedule, Variant::kOpenTails, Variant::kEvaluation}) {
      const absl::Status status = Rehearse(SkeletonsOf(layout, variant));
      EXPECT_TRUE(status.ok()) << Describe(layout) << ": " << status;
    }
  }
}

// Stages of these TP sizes, of a layer each.
Layout Unlike(const std::vector<int>& tp_sizes, Transfer transfer, const std::string& schedule) {
  Layout layout = LayoutOf(schedule, static_cast<int>(tp_sizes.size()));
  layout.pp_size = layout.layers;
  layout.transfer = transfer;
  layout.micro_batches = 5;
  for (int tp_size : tp_sizes) layout.stages.push_back({.layers = 1, .tp_size = tp_size});
  return layout;
}

TEST(IssueOrderTest, NoBoundaryOfUnlikeStagesDeadlocksInIt) {
  for (const std::vector<int>& tp_sizes :
       {std::vector<int>{4, 2}, {2, 4}, {4, 2, 1}, {1, 4}, {2, 2}}) {
    for (Transfer transfer : {Transfer::kSend, Transfer::kChain, Transfer::kGather}) {
      for (const std::string& order : PipelineNames()) {
        if (FindPipeline(order)->chunked) continue;  // their stages are alike
        for (const char* schedule : {"megatron_sync", "domino_row"}) {
          Layout layout = Unlike(tp_sizes, transfer, schedule);
          layout.pipeline = order;
          for (bool sequence_parallel : {false, true}) {
            layout.sequence_parallel = sequence_parallel;
            for (Variant variant : {Variant::kSchedule, Variant::kEvaluation}) {
              const absl::Status status = Rehearse(SkeletonsOf(layout, variant));
              EXPECT_TRUE(status.ok()) << Describe(layout) << ": " << status;
            }
          }
        }
      }
    }
  }
}

// The rank would wait for rows that are sent when its peers have passed collectives behind it.
TEST(IssueOrderTest, AGatherThatOneRankEnqueuesElsewhereIsADeadlock) {
  const std::vector<Skeleton> skeletons =
      SkeletonsOf(Unlike({2, 4}, Transfer::kGather, "domino_row"));
  const Rank rank = 3;
  const IdVector<GroupId, Group>& groups = skeletons[rank.position()].groups;
  const GroupId gather = FindGroup(groups, "pp.0-1.2-3-4-5");
  const std::vector<GroupId>& issued = skeletons[rank.position()].issued;
  ASSERT_TRUE(std::count(issued.begin(), issued.end(), gather) == 2 * 5);
  // Its last gather as its first call, and its first gather as its last call.
  for (bool early : {true, false}) {
    std::vector<Skeleton> changed = skeletons;
    std::vector<GroupId>& order = changed[rank.position()].issued;
    if (early) {
      order.erase(std::find(order.rbegin(), order.rend(), gather).base() - 1);
      order.insert(order.begin(), gather);
    } else {
      order.erase(std::find(order.begin(), order.end(), gather));
      order.push_back(gather);
    }
    EXPECT_THAT(std::string(Rehearse(changed).message()), HasSubstr("deadlock")) << early;
  }
}

// On devices, a stage of the smallest job with tails closed between its passes stood still when
// each receive was enqueued before the sends of the pass before it.
TEST(IssueOrderTest, ReceivesBeforeTheSendsOfBothStagesAreADeadlock) {
  Layout layout = Domino({1, 1}, 4);
  layout.pp_size = 2;
  std::vector<Skeleton> skeletons = SkeletonsOf(layout);
  ASSERT_TRUE(Rehearse(skeletons).ok());
  for (Skeleton& skeleton : skeletons) {
    const auto is = [&](GroupId group, const char* first, const char* second) {
      const std::string& name = skeleton.groups[group].name;
      return name == first || name == second;
    };
    const bool first_stage = skeleton.groups[kTpGroup].ranks.front() == 0;
    const char* received = first_stage ? "pp.1-0" : "pp.0-1";
    const char* sent = first_stage ? "pp.0-1" : "pp.1-0";
    // Receives pass sends and the last collective of the pass before.
    for (size_t pass = 0; pass < 3; ++pass) {
      for (size_t i = 1; i < skeleton.issued.size(); ++i) {
        if (is(skeleton.issued[i], received, received) && is(skeleton.issued[i - 1], sent, "tp"))
          std::swap(skeleton.issued[i], skeleton.issued[i - 1]);
      }
    }
  }
  EXPECT_THAT(std::string(Rehearse(skeletons).message()), HasSubstr("deadlock"));
}

}  // namespace
}  // namespace stretto
