// SPDX-License-Identifier: Apache-2.0

// Stages of a pipeline: what they keep, and faults that the verifier must find.

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/spec/pipelines.h"
#include "tests/worker/engine/program/expect_rejected.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/layout/layout.h"
#include "worker/engine/program/text.h"
#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/units.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;

Layout Staged(int stages, int micro_batches, const std::string& order = "1f1b") {
  Layout layout = Domino({1, 1}, micro_batches, stages);
  layout.tp_size = 1;
  layout.pp_size = stages;
  return InOrder(layout, order);
}

std::vector<Program> ProgramsOf(const Layout& layout) {
  const auto plans = BuildPlans(SpecOf(layout));
  EXPECT_TRUE(plans.ok()) << plans.status();
  std::vector<Program> programs;
  for (const RankPlan& plan : *plans) programs.push_back(plan.program);
  return programs;
}

using OpList = IdVector<OpId, Op>;

// The copies of a stage's buffers, by name.
std::map<std::string, int> SlotsOf(const Layout& layout, Rank rank) {
  std::map<std::string, int> slots;
  for (const Buffer& buffer : PlanOf(layout, rank).step.buffers) slots[buffer.name] = buffer.slots;
  return slots;
}

TEST(ArrangePipelineTest, AStageKeepsWhatItsMicroBatchesInFlightNeed) {
  auto first = SlotsOf(Staged(4, 12), 0), third = SlotsOf(Staged(4, 12), 2);
  EXPECT_EQ(first["L0.y1.s0"], 4);   // four micro-batches between forward and backward
  EXPECT_EQ(third["L2.y1.s0"], 2);   // two
  EXPECT_EQ(third["L2.x.s0"], 3);    // and the next may arrive
  EXPECT_EQ(third["L3.d_x.s0"], 2);  // the gradient of one while that of another is read
  EXPECT_EQ(third["L3.x.s0"], 2);    // what is sent, while the next is computed
  EXPECT_EQ(third["L2.d_a.s0"], 1);  // backward's own
  EXPECT_EQ(SlotsOf(Staged(4, 12, "eager_1f1b"), 0)["L0.y1.s0"], 7);
  EXPECT_EQ(SlotsOf(Staged(4, 12, "gpipe"), 3)["L3.y1.s0"], 12);
  EXPECT_EQ(SlotsOf(Staged(4, 2), 0)["L0.y1.s0"], 2);  // no more than there are
  Layout by_hand = Staged(4, 12);
  by_hand.warm_up = {6, 5, 2, 1};
  EXPECT_EQ(SlotsOf(by_hand, 0)["L0.y1.s0"], 6);
}

TEST(ArrangePipelineTest, MemoryOfActivationsFollowsThePlaceOfTheStage) {
  const auto activations = [&](int stage, const std::string& order) {
    return static_cast<double>(
        PlanOf(Staged(4, 12, order), Rank::Of(stage)).arenas[ArenaClass::kActivation]);
  };
  // Stages 1 and 2 have the same layers, with three micro-batches in flight and with two.
  EXPECT_GT(activations(1, "1f1b"), 1.2 * activations(2, "1f1b"));
  EXPECT_LT(activations(1, "1f1b"), 1.6 * activations(2, "1f1b"));
  EXPECT_GT(activations(1, "gpipe"), 3 * activations(1, "1f1b"));
}

// A long step is that of a short one, repeated.
TEST(ArrangePipelineTest, ALongStepVerifies) {
  for (const std::string& order : PipelineNames()) {
    for (int micro_batches : {5, 8, 9, 40})
      EXPECT_EQ(ProgramsOf(Staged(3, micro_batches, order)).size(), 3u);
  }
  for (int micro_batches : {7, 8, 24, 40}) {
    Layout by_hand = Staged(3, micro_batches);
    by_hand.warm_up = {7, 3, 1};
    EXPECT_EQ(ProgramsOf(by_hand).size(), 3u);
  }
}

// ---- delayed weight gradients

Layout Delaying(int stages, int micro_batches, WgradDelay delay) {
  Layout layout = Staged(stages, micro_batches);
  layout.wgrad_delay = delay;
  return layout;
}

// The operations of a unit, "wgrad" for weight gradients of layers and "other" runs as one.
std::string ShapeOf(const StepProgram& step, const std::string& unit) {
  std::string shape, last;
  for (const Op& op : step.units[FindUnit(step, unit)].ops) {
    const bool of_layer = op.tag.layer >= 0 && op.group < 0;
    const bool wgrad = InfoOf(op.kind).role == OperationRole::kWeightGradient && of_layer;
    const std::string what = op.kind == OpKind::kSend ? "send" : wgrad ? "wgrads" : "other";
    if (what != last) absl::StrAppend(&shape, shape.empty() ? "" : " ", what);
    last = what;
  }
  return shape;
}

TEST(DelayedWgradsTest, StandBehindTheSendsOfTheirPass) {
  const auto shape = [](Rank stage) {
    return ShapeOf(PlanOf(Delaying(3, 8, WgradDelay::kSend), stage).step, "backward");
  };
  EXPECT_EQ(shape(1), "other send other send wgrads");
  EXPECT_EQ(shape(2), "other send other send wgrads");
  // The first stage sends nothing, so nothing is delayed.
  EXPECT_EQ(shape(0), ShapeOf(PlanOf(Staged(3, 8), 0).step, "backward"));
}

TEST(DelayedWgradsTest, ArePassesThatFillTheBubble) {
  const StepProgram step = PlanOf(Delaying(3, 8, WgradDelay::kBubble), 1).step;
  EXPECT_EQ(ShapeOf(step, "backward"), "other send other send");
  EXPECT_EQ(ShapeOf(step, "weights"), "wgrads");
}

// With tensor parallelism a schedule hides collectives under weight gradients: those stay.
TEST(DelayedWgradsTest, LeaveThoseThatHideCollectives) {
  const auto delayed = [](const std::string& schedule) {
    Layout layout = LayoutOf(schedule, 4);
    layout.pp_size = 2;
    layout.micro_batches = 8;
    layout.wgrad_delay = WgradDelay::kBubble;
    // Before tails are closed, which would add those of backward.
    const auto plan = BuildPlan(SpecOf(layout), 2, Variant::kOpenTails);
    if (!plan.ok()) return std::set<std::string>{plan.status().ToString()};
    const StepProgram& step = plan->step;
    std::set<std::string> names;
    for (const Op& op : step.units[FindUnit(step, "weights")].ops)
      names.insert(absl::StrCat("L", op.tag.layer, ".", op.tag.name));
    return names;
  };
  EXPECT_THAT(delayed("megatron_sync"),
              ElementsAre("L2.fc1", "L2.fc2", "L2.ln1", "L2.ln2", "L2.proj", "L2.qkv", "L3.fc1",
                          "L3.fc2", "L3.ln1", "L3.ln2", "L3.proj", "L3.qkv"));
  // Each all-reduce hides under the weight gradient of the product before it.
  EXPECT_THAT(delayed("megatron_async"),
              ElementsAre("L2.fc2", "L2.ln1", "L2.proj", "L3.fc2", "L3.proj"));
  // Each of them hides one of the other slice.
  EXPECT_THAT(delayed("domino_row"), ElementsAre("L2.ln1"));
}

// Some hide a collective under the contribution of one slice only: the others then stay as well.
TEST(DelayedWgradsTest, KeepTheOrderOfSumsInEverySchedule) {
  for (const std::string& schedule : UnwovenSchedules()) {
    for (WgradDelay delay : {WgradDelay::kSend, WgradDelay::kBubble}) {
      for (int merged : {0, 1}) {
        Layout layout = LayoutOf(schedule, 4);
        layout.pp_size = 2;
        layout.micro_batches = 6;
        layout.merge_wgrads = merged;
        layout.wgrad_delay = delay;
        const auto plans = BuildPlans(SpecOf(layout));
        EXPECT_TRUE(plans.ok()) << Describe(layout) << ": " << plans.status();
      }
    }
  }
}

TEST(DelayedWgradsTest, NeedCopiesUntilTheirPass) {
  auto last = SlotsOf(Delaying(4, 12, WgradDelay::kBubble), 3);
  EXPECT_EQ(last["L3.y1.s0"], 4);   // from forward to weights
  EXPECT_EQ(last["L3.d_u.s0"], 4);  // from backward to weights
  EXPECT_EQ(last["L3.qkv.s0"], 1);  // weights do not need it
  EXPECT_EQ(last["L3.x.s0"], 5);    // received, and needed for the norm's weights
  EXPECT_EQ(last["logits.s0"], 1);
  auto first = SlotsOf(Delaying(4, 12, WgradDelay::kBubble), 0);
  EXPECT_EQ(first["L0.y1.s0"], 4);
  EXPECT_EQ(first["L0.d_u.s0"], 1);
}

TEST(DelayedWgradsTest, EveryOrderThatDelaysVerifies) {
  for (WgradDelay delay : {WgradDelay::kSend, WgradDelay::kBubble}) {
    for (const char* order : {"1f1b", "eager_1f1b"}) {
      for (int micro_batches : {1, 2, 5, 9, 40}) {
        Layout layout = Delaying(3, micro_batches, delay);
        layout.pipeline = order;
        EXPECT_EQ(ProgramsOf(layout).size(), 3u);
      }
    }
    for (Variant variant : {Variant::kCommunicationOnly, Variant::kComputeOnly,
                            Variant::kWithinStage, Variant::kTransfersOnly}) {
      const auto plans = BuildPlans(SpecOf(Delaying(3, 8, delay)), variant);
      EXPECT_TRUE(plans.ok()) << plans.status();
    }
  }
}

TEST(ArrangePipelineTest, SynchronousSchedulesKeepTransfersBesideComputation) {
  Layout layout = Staged(3, 8);
  layout.schedule = "megatron_sync";
  layout.slices = {2};
  layout.tp_size = 2;
  EXPECT_EQ(ProgramsOf(layout).size(), 6u);
}

// Programs for measurements: of communication alone, and of computation alone.
TEST(ArrangePipelineTest, EveryOrderHasItsMeasurements) {
  for (const std::string& order : PipelineNames()) {
    for (Variant variant :
         {Variant::kCommunicationOnly, Variant::kComputeOnly, Variant::kWithinStage,
          Variant::kTransfersOnly, Variant::kOpenTails, Variant::kEvaluation}) {
      const auto plans = BuildPlans(SpecOf(Staged(3, 8, order)), variant);
      EXPECT_TRUE(plans.ok()) << order << ": " << plans.status();
    }
  }
}

// What the times of auto_warm_up are measured on.
TEST(ArrangePipelineTest, PassesAndTransfersAreMeasuredApart) {
  Layout layout = Staged(3, 1);
  layout.tp_size = layout.dp_size = 2;
  layout.zero = 1;
  const EngineSpec spec = SpecOf(layout);
  const Rank middle = RankAt(spec, {.stage = 1});
  const auto count = [](const Program& program, auto chosen) {
    return std::count_if(program.ops.begin(), program.ops.end(), chosen);
  };
  const auto within = [](const Op& op) { return op.group < 0 || op.group == kTpGroup; };
  const auto transfers = [](const Op& op) { return IsTransfer(op.kind); };
  const Program whole = PlanOf(spec, middle).program;
  const Program passes = PlanOf(spec, middle, Variant::kWithinStage).program;
  EXPECT_EQ(std::ssize(passes.ops), count(whole, within));
  EXPECT_EQ(count(passes, within), count(whole, within));
  const Program links = PlanOf(spec, middle, Variant::kTransfersOnly).program;
  EXPECT_EQ(std::ssize(links.ops), count(whole, transfers));
  EXPECT_EQ(count(links, transfers), 2 * 2 * 2);  // slices, directions, both ends
  // All of it may leave at once.
  for (const Op& op : links.ops) EXPECT_TRUE(op.waits.empty()) << PrintTag(op.tag);
}

// They complete what is received.
TEST(ArrangePipelineTest, GathersOfABoundaryAreMeasuredWithTransfers) {
  Layout layout = Staged(2, 1);
  layout.tp_size = 2;
  layout.transfer = Transfer::kGather;
  const EngineSpec spec = SpecOf(layout);
  for (Variant variant : {Variant::kWithinStage, Variant::kTransfersOnly}) {
    const auto plans = BuildPlans(spec, variant);
    ASSERT_TRUE(plans.ok()) << plans.status();
    for (const RankPlan& plan : *plans) {
      const auto gathers = std::count_if(
          plan.program.ops.begin(), plan.program.ops.end(),
          [](const Op& op) { return op.kind == OpKind::kAllGather && MovesBetweenStages(op); });
      EXPECT_EQ(gathers, variant == Variant::kTransfersOnly ? 2 : 0);  // slices
    }
  }
}

// ---- faults

// Of the last slice.
OpId FindTransfer(const Program& program, OpKind kind, Phase phase, int micro_batch) {
  OpId found = -1;
  for (OpId id : program.ops.ids()) {
    const Op& op = program.ops[id];
    if (op.kind == kind && op.tag.phase == phase && op.tag.micro_batch == micro_batch) found = id;
  }
  EXPECT_TRUE(found >= 0);
  return found;
}

TEST(PipelineFaultTest, SwappedMicroBatchesOfTransfersAreRejected) {
  std::vector<Program> programs = ProgramsOf(Staged(2, 4));
  const OpId a = FindTransfer(programs[1], OpKind::kRecv, Phase::kForward, 1);
  const OpId b = FindTransfer(programs[1], OpKind::kRecv, Phase::kForward, 2);
  IdVector<OpId, Op>& ops = programs[1].ops;
  std::swap(ops[a].tag.micro_batch, ops[b].tag.micro_batch);
  ExpectRejected(VerifyRanks(programs), "collectives differ: rank 0 is at");
}

TEST(PipelineFaultTest, AMissingReceiveIsADeadlock) {
  std::vector<Program> programs = ProgramsOf(Staged(2, 4));
  Op& op = programs[0].ops[FindTransfer(programs[0], OpKind::kRecv, Phase::kBackward, 3)];
  op.kind = OpKind::kZero;  // computes in its place
  op.lane = 0;
  op.group = -1;
  op.attributes.clear();
  ExpectRejected(VerifyRanks(programs), "deadlock: nothing can proceed");
}

TEST(PipelineFaultTest, ASendInTheWrongDirectionIsRejected) {
  Program program = ProgramsOf(Staged(2, 4))[0];
  const OpId at = FindTransfer(program, OpKind::kSend, Phase::kForward, 0);
  Op& op = program.ops[at];
  op.group = FindGroup(program.groups, TransferGroupName(1, 0));
  ExpectRejected(Verify(program), "expected that rank 1 sends and the others receive");
}

TEST(PipelineFaultTest, ATransferOnTheLaneOfTheOtherDirectionIsRejected) {
  Program program = ProgramsOf(Staged(2, 4))[0];
  const OpId back = FindTransfer(program, OpKind::kRecv, Phase::kBackward, 0);
  const OpId at = FindTransfer(program, OpKind::kSend, Phase::kForward, 1);
  program.ops[at].lane = program.ops[back].lane;
  ExpectRejected(Verify(program), "group pp.0-1 on lane comm.pp.1-0, expected lane comm.pp.0-1");
}

// One copy fewer than micro-batches are in flight: all accesses are ordered, and backward reads
// what the next forward pass has written.
TEST(PipelineFaultTest, OneCopyTooFewIsRejected) {
  const EngineSpec spec = SpecOf(Staged(2, 4));
  StepProgram step = Emit(spec, 0).step;
  const CanonicalValues canonical = EmittedValues(spec, 0);
  ASSERT_TRUE(ArrangePipeline(spec, &step).ok());
  const auto verified = [&](int fewer) {
    StepProgram changed = step;
    for (Buffer& buffer : changed.buffers) {
      if (absl::StartsWith(buffer.name, "L0.y1")) buffer.slots -= fewer;
    }
    EXPECT_TRUE(AssignLanesAndWaits(spec, &changed).ok());
    return Verify(Expand(changed), nullptr, {&canonical, 1});
  };
  EXPECT_EQ(verified(0), absl::OkStatus());
  ExpectRejected(verified(1), "values differ:");
}

// The same between backward and weights, and between forward and weights.
TEST(PipelineFaultTest, OneCopyTooFewOfWhatWeightsReadIsRejected) {
  const EngineSpec spec = SpecOf(Delaying(2, 6, WgradDelay::kBubble));
  StepProgram step = Emit(spec, 1).step;
  const CanonicalValues canonical = EmittedValues(spec, 1);
  ASSERT_TRUE(ArrangePipeline(spec, &step).ok());
  const auto verified = [&](const char* name) {
    StepProgram changed = step;
    int found = 0;
    for (Buffer& buffer : changed.buffers) {
      if (buffer.name != name) continue;
      ++found;
      EXPECT_EQ(buffer.slots--, 2);
    }
    EXPECT_TRUE(AssignLanesAndWaits(spec, &changed).ok());
    EXPECT_EQ(found, *name == '\0' ? 0 : 1) << name;
    return Verify(Expand(changed), nullptr, {&canonical, 1});
  };
  EXPECT_EQ(verified(""), absl::OkStatus());
  ExpectRejected(verified("L1.d_u.s0"), "values differ:");
  ExpectRejected(verified("L1.y1.s0"), "values differ:");
}

// Contributions to a gradient come in the order of micro-batches: one that stays behind in backward
// would overtake the delayed ones.
TEST(PipelineFaultTest, AContributionThatOvertakesIsRejected) {
  const EngineSpec spec = SpecOf(Delaying(2, 6, WgradDelay::kBubble));
  StepProgram step = Emit(spec, 1).step;
  const CanonicalValues canonical = EmittedValues(spec, 1);
  ASSERT_TRUE(ArrangePipeline(spec, &step).ok());
  OpList& backward = step.units[FindUnit(step, "backward")].ops;
  OpList& weights = step.units[FindUnit(step, "weights")].ops;
  const auto at = std::find_if(weights.begin(), weights.end(), [](const Op& op) {
    return op.kind == OpKind::kGemmWgrad && op.tag.name == "fc1" && op.tag.slice == 0;
  });
  ASSERT_NE(at, weights.end());
  backward.push_back(*at);
  weights.erase(at);
  ASSERT_TRUE(AssignLanesAndWaits(spec, &step).ok());
  ExpectRejected(Verify(Expand(step), nullptr, {&canonical, 1}), "values differ:");
}

// A weight gradient is a sum over micro-batches, but what it adds must be of its own.
TEST(PipelineFaultTest, AWeightGradientOfAnotherMicroBatchIsRejected) {
  const EngineSpec spec = SpecOf(Staged(2, 4));
  StepProgram step = Emit(spec, 0).step;
  const CanonicalValues canonical = EmittedValues(spec, 0);
  ASSERT_TRUE(ArrangePipeline(spec, &step).ok());
  ASSERT_TRUE(AssignLanesAndWaits(spec, &step).ok());
  Program program = Expand(step);
  ASSERT_EQ(Verify(program, nullptr, {&canonical, 1}), absl::OkStatus());
  const auto product = [&](int micro_batch) -> Op& {
    return *std::find_if(program.ops.begin(), program.ops.end(), [&](const Op& op) {
      return op.kind == OpKind::kGemmWgrad && op.tag.name == "fc1" &&
             op.tag.micro_batch == micro_batch;
    });
  };
  ASSERT_NE(product(1).in[1], product(2).in[1]);
  product(2).in[1] = product(1).in[1];
  ExpectRejected(Verify(program, nullptr, {&canonical, 1}), "values differ:");
}

}  // namespace
}  // namespace stretto
