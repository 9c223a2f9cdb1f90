// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/program/issue_order.h"

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
  EXPECT_THAT(order, ElementsAre("recv f0", "recv f1", "f0", "recv f2", "f1",  //
                                 "recv b0", "recv b1", "b0", "recv f3", "f2",  //
                                 "recv b2", "b1", "recv f4", "f3",             //
                                 "recv b3", "b2", "recv f5", "f4",             //
                                 "recv b4", "b3", "f5", "recv b5", "b4", "b5"));
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

TEST(IssueOrderTest, NoPipelineDeadlocksInIt) {
  for (const Layout& layout : Pipelines()) {
    for (Variant variant : {Variant::kSchedule, Variant::kEvaluation}) {
      SCOPED_TRACE(Describe(layout));
      const std::vector<RankPlan> plans = *BuildPlans(SpecOf(layout), variant);
      std::vector<Skeleton> skeletons;
      for (const RankPlan& plan : plans) {
        skeletons.push_back(*SkeletonOf(plan.program));
        skeletons.back().issued = CallsInIssueOrder(plan.step);
      }
      std::vector<const Skeleton*> all;
      for (const Skeleton& skeleton : skeletons) all.push_back(&skeleton);
      const absl::Status status = VerifySkeletons(all);
      EXPECT_TRUE(status.ok()) << status;
    }
  }
}

}  // namespace
}  // namespace stretto
