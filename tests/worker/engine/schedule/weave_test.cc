// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/schedule/weave.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/ids.h"
#include "tests/worker/engine/schedule/steps.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/schedule/units.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;

TEST(WeaverTest, WordsStandInTheOrderTheyArePlayedAndTheRestFollows) {
  const StepProgram step =
      StepOf({OpOf("p", {}, {0}), OpOf("q", {}, {1}), OpOf("r", {}, {2}), OpOf("s", {}, {3})});
  Weaver weaver(step, 0);
  weaver.Play("s q", 0, 0);
  EXPECT_THAT(ValuesOf(weaver.Finish()), ElementsAre(3, 1, 0, 2));
}

TEST(WeaverTest, WhatAnOperationReadsIsPlayedBeforeIt) {
  const StepProgram step = StepOf(
      {OpOf("p", {}, {0}), OpOf("other", {}, {3}), OpOf("q", {0}, {1}), OpOf("r", {1}, {2})});
  Weaver weaver(step, 0);
  weaver.Play("r", 0, 0);
  EXPECT_THAT(ValuesOf(weaver.Finish()), ElementsAre(0, 2, 3, 1));
}

TEST(WeaverTest, AWriterComesBehindTheReadersAndWritersOfWhatItOverwrites) {
  const StepProgram step = StepOf({OpOf("old", {}, {0}), OpOf("read", {0}, {1}),
                                   OpOf("again", {0}, {2}), OpOf("new", {}, {0})});
  Weaver weaver(step, 0);
  weaver.Play("new", 0, 0);
  EXPECT_THAT(ValuesOf(weaver.Finish()), ElementsAre(0, 1, 2, 3));
}

TEST(WeaverTest, PartsOfABufferArePlayedBeforeTheWholeAndAccumulationsInOrder) {
  const StepProgram parts =
      StepOf({OpOf("low", {}, {4}), OpOf("high", {}, {5}), OpOf("whole", {3}, {0})});
  Weaver whole(parts, 0);
  whole.Play("whole", 0, 0);
  EXPECT_THAT(ValuesOf(whole.Finish()), ElementsAre(0, 1, 2));

  const StepProgram sum = StepOf({OpOf("one", {0, 1}, {1}), OpOf("two", {0, 1}, {1})});
  Weaver second(sum, 0);
  second.Play("two", 0, 0);
  EXPECT_THAT(ValuesOf(second.Finish()), ElementsAre(0, 1));
}

TEST(WeaverTest, AMicroBatchOfTheUnitComesAfterTheOneBeforeIt) {
  StepProgram step =
      StepOf({OpOf("p", {}, {0}), OpOf("q", {}, {1}), OpOf("p", {}, {2}), OpOf("q", {}, {3})});
  for (OpId i : IdRange<OpId>(4)) step.units[0].ops[i].tag.micro_batch = i < 2 ? 0 : 1;
  Weaver weaver(step, 0);
  EXPECT_EQ(weaver.roles(), 2);
  weaver.Play("q", 0, 0);
  weaver.Enter(1);
  weaver.Play("q", 0, 0);
  EXPECT_THAT(ValuesOf(weaver.Finish()), ElementsAre(1, 0, 3, 2));
}

// A collective that something in front of the barrier needs stays there.
TEST(WeaverTest, WhatAPlayedCollectiveHidesUnderComesBehindTheBarrier) {
  const StepProgram step =
      StepOf({OpOf("p", {}, {0}), OpOf("p", {0}, {0}, 0, 0, Phase::kForward, OpKind::kAllReduce),
              OpOf("q", {}, {1}), OpOf("q", {1}, {1}, 0, 0, Phase::kForward, OpKind::kAllReduce),
              OpOf("r", {0}, {2}), OpOf("s", {}, {3})});
  Weaver weaver(step, 0);
  weaver.Play("q p r", 0, 0);
  weaver.Barrier();
  weaver.Play("s", 0, 0);
  weaver.Barrier();  // in front of nothing
  EXPECT_THAT(ValuesOf(weaver.Finish()), ElementsAre(2, 0, 1, 4, 3, 5));
  EXPECT_THAT(ValuesOf(weaver.barriers()), ElementsAre(3));
}

TEST(WeaverTest, NothingIsPlayedTwice) {
  const StepProgram step = StepOf({OpOf("p", {}, {0}), OpOf("q", {0}, {1})});
  Weaver weaver(step, 0);
  weaver.Play("q p q", 0, 0);
  weaver.PlayAll("p", 0);
  EXPECT_THAT(ValuesOf(weaver.Finish()), ElementsAre(0, 1));
}

TEST(WeaverTest, WordsThatTheProgramLacksArePassedOver) {
  const StepProgram step = StepOf({OpOf("p", {}, {0}), OpOf("q", {}, {1})});
  Weaver weaver(step, 0);
  weaver.Play("r.q position q", 0, 0);
  weaver.Play("p", 0, 1);   // no such slice
  weaver.Play("p", -1, 0);  // not outside the layers
  EXPECT_THAT(ValuesOf(weaver.Finish()), ElementsAre(1, 0));
}

TEST(WeaverTest, ALayerBeyondTheModelIsWhatStandsOutsideTheLayers) {
  const StepProgram step = StepOf(
      {OpOf("ln1", {}, {0}, 0, 0), OpOf("ln1", {}, {1}, 0, 1), OpOf("final_norm", {}, {2}, 0, -1)});
  Weaver weaver(step, 0);
  EXPECT_EQ(weaver.layers(), 2);
  weaver.Play("ln1 final_norm", 2, 0);  // the layer above the last
  weaver.Play("ln1 final_norm", 1, 0);
  EXPECT_THAT(ValuesOf(weaver.Finish()), ElementsAre(2, 1, 0));
}

TEST(WeaverTest, PlayAllTakesTheSlicesInTurn) {
  const StepProgram step = StepOf(
      {OpOf("p", {}, {0}, 0), OpOf("p", {}, {1}, 1), OpOf("q", {}, {2}, 0), OpOf("q", {}, {3}, 1)});
  Weaver weaver(step, 0);
  EXPECT_EQ(weaver.slices(), 2);
  weaver.PlayAll("p q", 0);
  EXPECT_THAT(ValuesOf(weaver.Finish()), ElementsAre(0, 2, 1, 3));
}

TEST(WeaverTest, AWordSaysPhaseAndRoleAndIncludesItsCollectives) {
  const auto phase = [](Phase p, OpKind kind, BufferId buffer) {
    return OpOf("fc1", {}, {buffer}, 0, 0, p, kind);
  };
  const StepProgram step = StepOf(
      {phase(Phase::kForward, OpKind::kGemm, 0), phase(Phase::kForward, OpKind::kAllGather, 0),
       phase(Phase::kRecompute, OpKind::kGemm, 1), phase(Phase::kBackward, OpKind::kGemmDgrad, 2),
       phase(Phase::kBackward, OpKind::kAllReduce, 2),
       phase(Phase::kBackward, OpKind::kGemmWgrad, 4),
       phase(Phase::kBackward, OpKind::kBiasGrad, 5)});
  for (const auto& [word, first] : std::vector<std::pair<const char*, std::vector<OpId>>>{
           {"fc1", {0, 1}}, {"r.fc1", {2}}, {"d.fc1", {3, 4}}, {"w.fc1", {5, 6}}}) {
    Weaver weaver(step, 0);
    weaver.Play(word, 0, 0);
    std::vector<OpId> order = weaver.Finish();
    order.resize(first.size());
    EXPECT_EQ(order, first) << word;
  }
}

// What a schedule decides is a permutation: whatever it plays, no value moves.
TEST(WeaverTest, AnyScoreKeepsEveryValue) {
  const Score backwards = {
      [](Weaver& weaver, int layer) { weaver.PlayAll("fc2 act ln1", layer); },
      [](Weaver& weaver, int layer) { weaver.PlayAll("w.qkv d.ln1 nothing w.fc1", layer); }};
  const Score silent = {[](Weaver&, int) {}, [](Weaver&, int) {}};
  for (const Score& score : {backwards, silent}) {
    const EngineSpec spec = SpecOf(Domino({2, 1}));
    const CanonicalValues canonical = EmittedValues(spec);
    StepProgram step = PlanOf(spec, 0, Variant::kSerialOracle).step;
    const UnitId unit = FindUnit(step, kMicroBatchUnit);
    const size_t count = step.units[unit].ops.size();
    EXPECT_TRUE(Arrange(score, &step).ok());
    EXPECT_EQ(step.units[unit].ops.size(), count);
    EXPECT_EQ(Verify(Expand(step), nullptr, {&canonical, 1}), absl::OkStatus());
  }
}

}  // namespace
}  // namespace stretto
