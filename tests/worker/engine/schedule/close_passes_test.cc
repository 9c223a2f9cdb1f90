// SPDX-License-Identifier: Apache-2.0

// Where the passes of a pipeline's stage meet, and where they must not.

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/spec/pipelines.h"
#include "tests/worker/engine/program/expect_rejected.h"
#include "tests/worker/engine/schedule/positions.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/program/verify.h"
#include "worker/engine/schedule/units.h"

namespace stretto {
namespace {

using ::testing::UnorderedElementsAre;

// Two ranks for each stage of one layer.
Layout Staged(int stages, int micro_batches, const std::string& order,
              bool sequence_parallel = false) {
  Layout layout = Domino({1, 1}, micro_batches, stages);
  layout.pp_size = stages;
  layout.sequence_parallel = sequence_parallel;
  return InOrder(layout, order);
}

// Of the first rank of a stage.
RankPlan PlanOfStage(const Layout& layout, int stage) {
  return PlanOf(layout, Rank::Of(stage * layout.tp_size));
}

std::vector<std::string> PassesOf(const StepProgram& step) {
  std::vector<std::string> names;
  for (const Unit& unit : step.units) {
    if (unit.name != "begin" && unit.name != "finish") names.push_back(unit.name);
  }
  return names;
}

TEST(ClosePassesTest, APassHasTheTailOfTheOneBeforeIt) {
  EXPECT_THAT(PassesOf(PlanOfStage(Staged(3, 8, "1f1b"), 1).step),
              UnorderedElementsAre("forward", "forward behind forward", "backward behind forward",
                                   "forward behind backward", "backward behind backward"));
  // The last stage goes back with the micro-batch that has just come.
  EXPECT_THAT(
      PassesOf(PlanOfStage(Staged(3, 8, "1f1b"), 2).step),
      UnorderedElementsAre("forward", "backward behind its forward", "forward behind backward"));
  EXPECT_THAT(PassesOf(PlanOfStage(Staged(3, 8, "1f1b_blocking"), 1).step),
              UnorderedElementsAre("forward", "backward", "optimizer"));
}

// In the middle of three stages that have a micro-batch more than they need.
TEST(ClosePassesTest, WithSlackTheNextPassRunsUnderTheLastCollective) {
  const Positions at(PlanOfStage(Staged(3, 12, "eager_1f1b"), 1).program);
  // Stage 1 keeps three micro-batches: forward of 5, backward of 3, forward of 6.
  const OpId forward = at.Collective("L1.fc2 fwd s1", 0, 5);
  at.ExpectUnder(forward, at.At(OpKind::kGemmDgrad, "L1.fc2 bwd s0", 3));
  at.ExpectUnder(forward, at.At(OpKind::kGemmDgrad, "L1.fc1 bwd s0", 3));
  EXPECT_TRUE(at.Before(forward, at.At(OpKind::kGemmDgrad, "L1.fc2 bwd s1", 3)));
  const OpId backward = at.Collective("L1.qkv bwd s1", 0, 3);
  at.ExpectUnder(backward, at.At(OpKind::kGemm, "L1.qkv fwd s0", 6));
  at.ExpectUnder(backward, at.At(OpKind::kGemm, "L1.proj fwd s0", 6));
  at.ExpectUnder(backward, at.At(OpKind::kGemmWgrad, "L1.qkv bwd s1", 3));
  EXPECT_TRUE(at.Before(backward, at.At(OpKind::kGemm, "L1.qkv fwd s1", 6)));
}

TEST(ClosePassesTest, AFirstGatheringRunsUnderTheLastProduct) {
  const Positions at(PlanOfStage(Staged(3, 12, "eager_1f1b", true), 1).program);
  at.ExpectUnder(at.Collective("L1.ln1 fwd s0", 0, 6),
                 at.At(OpKind::kGemmDgrad, "L1.qkv bwd s1", 3));
  at.ExpectUnder(at.Collective("L1.res2 bwd s0", 0, 3), at.At(OpKind::kGemm, "L1.fc2 fwd s1", 5));
  at.ExpectUnder(at.Collective("L1.fc2 fwd s1", 0, 5),
                 at.At(OpKind::kGemmDgrad, "L1.fc2 bwd s0", 3));
}

OpId Transfer(const Program& program, OpKind kind, Phase phase, int micro_batch, int slice = 1) {
  OpId found = -1;
  for (OpId id : program.ops.ids()) {
    const Op& op = program.ops[id];
    if (op.kind != kind || op.tag.phase != phase || op.tag.slice != slice) continue;
    if (op.tag.micro_batch == micro_batch) found = id;
  }
  EXPECT_TRUE(found >= 0);
  return found;
}

// Neither stage may wait for the other before it has sent: 1f1b exchanges a micro-batch for
// another.
TEST(ClosePassesTest, WithoutSlackASendWaitsForNoReceive) {
  for (bool slack : {false, true}) {
    const Positions at(PlanOfStage(Staged(3, 12, slack ? "eager_1f1b" : "1f1b"), 1).program);
    const auto waits = [&](Phase sent, int of, Phase received, int behind) {
      return at.Before(Transfer(at.program(), OpKind::kRecv, received, behind, 0),
                       Transfer(at.program(), OpKind::kSend, sent, of));
    };
    // The order is forward of mb + ahead, backward of mb, forward of mb + ahead + 1.
    const int ahead = slack ? 2 : 1;
    for (int mb : {3, 4, 5}) {
      EXPECT_EQ(waits(Phase::kForward, mb + ahead, Phase::kBackward, mb), slack);
      EXPECT_EQ(waits(Phase::kBackward, mb, Phase::kForward, mb + ahead + 1), slack);
    }
  }
}

// What the rule is for: the passes of 1f1b closed by hand.
TEST(ClosePassesTest, TwoStagesThatBothWaitFirstWouldWaitForever) {
  Layout layout = Staged(2, 6, "1f1b");
  layout.tp_size = 1;
  const auto plans = BuildPlans(SpecOf(layout));
  ASSERT_TRUE(plans.ok()) << plans.status();
  std::vector<Program> programs = {(*plans)[0].program, (*plans)[1].program};
  // Stage 0 sends forward of 3 behind the arrival of backward of 2, which stage 1 sends behind the
  // arrival of forward of 3.
  const auto wait = [&](Program* program, Phase phase, int sent, int received) {
    const OpId send = Transfer(*program, OpKind::kSend, phase, sent);
    const OpId recv =
        Transfer(*program, OpKind::kRecv,
                 phase == Phase::kForward ? Phase::kBackward : Phase::kForward, received);
    program->ops[send].waits.push_back(recv);
    std::sort(program->ops[send].waits.begin(), program->ops[send].waits.end());
  };
  wait(&programs[0], Phase::kForward, 3, 2);
  EXPECT_TRUE(VerifyRanks(programs).ok());
  wait(&programs[1], Phase::kBackward, 2, 3);
  ExpectRejected(VerifyRanks(programs), "deadlock: nothing can proceed");
}

// The sends of the last pass come before the norm, which no stage waits for yet.
TEST(ClosePassesTest, TheLastSendWaitsForNoPartOfTheNorm) {
  const Program program = PlanOfStage(Staged(3, 6, "1f1b"), 1).program;
  const OpId send = Transfer(program, OpKind::kSend, Phase::kBackward, 5);
  for (OpId id : program.ops.ids()) {
    if (program.ops[id].kind == OpKind::kSumSquares) {
      EXPECT_GT(id, send);
    }
  }
  // The first stage sends nothing, so its norm hides the last collective.
  const Positions first(PlanOfStage(Staged(3, 6, "1f1b"), 0).program);
  first.ExpectUnder(first.Collective("L0.qkv bwd s1", 0, 5),
                    first.At(OpKind::kSumSquares, "layers.0.mlp.fc1.weight opt"));
}

// A long step is that of a short one, repeated, and no rank waits forever.
TEST(ClosePassesTest, EveryOrderAndScheduleVerifies) {
  for (const std::string& order : PipelineNames()) {
    if (FindPipeline(order)->folds) continue;  // of no such schedule
    for (const char* schedule : {"domino_row", "domino_col", "domino_hybrid"}) {
      for (bool sequence_parallel : {false, true}) {
        for (int micro_batches : {1, 5, 20}) {
          Layout layout = Staged(3, micro_batches, order, sequence_parallel);
          layout.schedule = schedule;
          if (layout.schedule == "domino_col") layout.slices = {2};
          if (layout.schedule != "domino_row") layout.splits = 2;
          const auto plans = BuildPlans(SpecOf(layout));
          EXPECT_TRUE(plans.ok()) << Describe(layout) << ": " << plans.status();
        }
      }
    }
  }
}

TEST(ClosePassesTest, WarmUpsByHandVerify) {
  const std::vector<std::vector<int>> warm_ups = {{4, 3, 2, 1},  {7, 5, 3, 1}, {6, 5, 3, 1},
                                                  {6, 4, 3, 1},  {5, 4, 3, 1}, {4, 4, 1, 1},
                                                  {12, 5, 5, 1}, {10, 3, 2, 1}};
  for (const std::vector<int>& by_hand : warm_ups) {
    for (int micro_batches : {1, 6, 13, 40}) {
      for (WgradDelay delay : {WgradDelay::kNone, WgradDelay::kSend, WgradDelay::kBubble}) {
        Layout layout = Staged(4, micro_batches, "1f1b");
        layout.recompute = micro_batches == 6 ? Recompute::kFull : Recompute::kNone;
        layout.warm_up = by_hand;
        layout.wgrad_delay = delay;
        const auto plans = BuildPlans(SpecOf(layout));
        EXPECT_TRUE(plans.ok()) << Describe(layout) << ": " << plans.status();
      }
    }
  }
}

// The rules of a job spec bound what the proof would refuse.
TEST(ClosePassesTest, AStageMayBeSoFarAheadAndNoFurther) {
  for (int ahead : {kMostFurtherAhead, kMostFurtherAhead + 1}) {
    bool all = true;
    for (int tp_size : {1, 2}) {
      for (WgradDelay delay : {WgradDelay::kNone, WgradDelay::kSend, WgradDelay::kBubble}) {
        Layout layout = Staged(2, 20, "1f1b");
        layout.tp_size = tp_size;
        layout.warm_up = {1 + ahead, 1};
        layout.wgrad_delay = delay;
        all = all && BuildPlans(SpecOf(layout)).ok();
      }
    }
    EXPECT_EQ(all, ahead == kMostFurtherAhead) << ahead;
  }
}

// Nothing can be delayed where products of all slices are merged.
TEST(ClosePassesTest, APassMayBeEmpty) {
  Layout layout = Staged(3, 6, "eager_1f1b");
  layout.schedule = "domino_col";
  layout.slices = {2};
  layout.splits = 2;
  layout.sequence_parallel = true;
  layout.recompute = Recompute::kFull;
  layout.wgrad_delay = WgradDelay::kBubble;
  layout.merge_wgrads = 1;
  const StepProgram open = PlanOf(layout, 0, Variant::kOpenTails).step;
  EXPECT_TRUE(open.units[FindUnit(open, "weights")].ops.empty());
  const auto plans = BuildPlans(SpecOf(layout));
  EXPECT_TRUE(plans.ok()) << plans.status();
}

// In 1f1b nothing overlaps but what the first stage embeds. With slack, forward of a micro-batch
// begins before the end of backward, which reads a layer's input and the head's other buffers.
TEST(ClosePassesTest, WhatTwoPassesUseAtOnceHasAnotherCopy) {
  const auto slots = [](const std::string& order, const std::string& name) {
    const StepProgram step = PlanOfStage(Staged(3, 12, order), 1).step;
    for (const Buffer& buffer : step.buffers) {
      if (buffer.name == name) return buffer.slots;
    }
    return 0;
  };
  EXPECT_EQ(slots("1f1b", "L1.x.s0"), 3);        // two in flight, and what arrives
  EXPECT_EQ(slots("eager_1f1b", "L1.x.s0"), 5);  // three, what arrives, and what overlaps
  EXPECT_EQ(slots("1f1b", "L1.y1.s0"), 2);
  EXPECT_EQ(slots("eager_1f1b", "L1.qkv.s0"), 3);  // backward is done with it when forward begins
  EXPECT_EQ(slots("eager_1f1b", "L1.u.s1"), 3);
}

}  // namespace
}  // namespace stretto
