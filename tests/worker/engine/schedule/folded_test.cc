// SPDX-License-Identifier: Apache-2.0

// Folded stages: their programs, what they keep, and their weave plans.

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/golden.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/memory/plan.h"
#include "worker/engine/program/text.h"
#include "worker/engine/schedule/helix.h"
#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/units.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;

Layout FoldedOver(int stages, int micro_batches, int layers_of_chunk = 1) {
  Layout layout = {.tp_size = 1,
                   .pp_size = stages,
                   .slices = {2},
                   .micro_batches = micro_batches,
                   .layers = 2 * stages * layers_of_chunk};
  return InOrder(layout, "folded");
}

absl::Status VerdictOf(const Layout& layout, Variant variant = Variant::kSchedule,
                       std::string plan = "") {
  EngineSpec spec = SpecOf(layout);
  spec.schedule.weave = std::move(plan);
  return BuildPlans(spec, variant).status();
}

// Every pass is proved on its own rank, and all ranks end together.
TEST(FoldedTest, EveryNumberOfStagesAndMicroBatchesEnds) {
  for (int stages = 1; stages <= 8; ++stages) {
    for (int more : {1, 2, stages, 2 * stages + 1}) {
      const Layout layout = FoldedOver(stages, stages + more);
      EXPECT_EQ(VerdictOf(layout), absl::OkStatus()) << Describe(layout);
    }
  }
}

// A long step is that of a short one, repeated.
TEST(FoldedTest, ALongStepVerifies) {
  for (const auto& [stages, micro_batches] : {std::pair{1, 50}, {2, 50}, {3, 41}, {4, 64}})
    EXPECT_EQ(VerdictOf(FoldedOver(stages, micro_batches)), absl::OkStatus()) << stages;
}

TEST(FoldedTest, AnEvaluationTakesAnyNumberOfMicroBatches) {
  for (int micro_batches : {1, 2, 3, 4, 5, 40}) {
    Layout layout = FoldedOver(3, 9);
    layout.micro_batches = micro_batches;
    EXPECT_EQ(VerdictOf(layout, Variant::kEvaluation), absl::OkStatus()) << micro_batches;
  }
}

TEST(FoldedTest, EveryFamilyAndParameterVerifies) {
  for (Family family : EveryFamily()) {
    for (bool sequence_parallel : {false, true}) {
      for (Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
        for (const std::vector<int>& slices : {std::vector<int>{2}, {1, 1}}) {
          Layout layout = FoldedOver(2, 5, 2);
          layout.family = family;
          layout.tp_size = 2;
          layout.sequence_parallel = sequence_parallel;
          layout.recompute = recompute;
          layout.slices = slices;
          layout.merge_wgrads = slices.size() > 1 ? 1 : 0;
          layout.other_options = recompute == Recompute::kSelective;
          EXPECT_EQ(VerdictOf(layout), absl::OkStatus()) << Describe(layout);
        }
      }
    }
  }
}

TEST(FoldedTest, AStageHasItsMeasurements) {
  for (Variant variant : {Variant::kCommunicationOnly, Variant::kComputeOnly,
                          Variant::kSerialOracle, Variant::kOpenTails}) {
    EXPECT_EQ(VerdictOf(FoldedOver(3, 5), variant), absl::OkStatus());
  }
}

// The units of a rank's instances, with their micro-batches: "forward.0 0".
std::vector<std::string> InstancesOf(const StepProgram& step) {
  std::vector<std::string> all;
  for (const Instance& instance : step.instances)
    all.push_back(absl::StrCat(step.units[instance.unit].name, " ",
                               absl::StrJoin(instance.micro_batches, ",")));
  return all;
}

TEST(FoldedTest, EachPairOfPassesHasAUnit) {
  EXPECT_THAT(InstancesOf(PlanOf(FoldedOver(2, 3), 1).step),
              ElementsAre("begin ", "forward.0 0", "forward.1 0", "forward.0 1", "forward.1 1",
                          "forward.0|backward.1 2,0", "forward.1|backward.0 2,0", "backward.1 1",
                          "backward.0 1", "backward.1 2", "backward.0 2", "optimizer "));
}

// What a unit does, by layers and transfers: "recv2 2 3 send4" and, backward, "recv4 3 2 send2".
std::string LayersOf(const StepProgram& step, const std::string& unit) {
  std::vector<std::string> layers;
  for (const Op& op : step.units[FindUnit(step, unit)].ops) {
    const std::string name = IsTransfer(op.kind) ? absl::StrCat(InfoOf(op.kind).name, op.tag.layer)
                             : op.tag.layer >= 0 ? absl::StrCat(op.tag.layer)
                                                 : op.tag.name;
    if (std::find(layers.begin(), layers.end(), name) == layers.end()) layers.push_back(name);
  }
  return absl::StrJoin(layers, " ");
}

// The two chunks of the last stage are neighbours: nothing is sent between them.
TEST(FoldedTest, ChunksAreCutAtTheirBoundaries) {
  const Layout layout = FoldedOver(2, 3, 2);
  const StepProgram first = PlanOf(layout, 0).step, last = PlanOf(layout, 1).step;
  EXPECT_EQ(LayersOf(first, "forward.0"), "embed position 0 1 send2");
  EXPECT_EQ(LayersOf(first, "forward.1"), "recv6 6 7 final_norm head max sum");
  EXPECT_EQ(LayersOf(first, "backward.1"), "loss head final_norm 7 6 send6");
  EXPECT_EQ(LayersOf(first, "backward.0"), "recv2 1 0 embed position");
  EXPECT_EQ(LayersOf(last, "forward.0"), "recv2 2 3");
  EXPECT_EQ(LayersOf(last, "forward.1"), "4 5 send6");
  EXPECT_EQ(LayersOf(last, "backward.1"), "recv6 5 4");
  EXPECT_EQ(LayersOf(last, "backward.0"), "3 2 send2");
}

// Contributions of the head and of the embedding come in another order than the oracle's.
TEST(FoldedTest, TiedEndsAddUpTheirOwnParts) {
  const auto has = [](const Layout& layout) {
    const StepProgram step = PlanOf(layout).step;
    return std::any_of(step.buffers.begin(), step.buffers.end(),
                       [](const Buffer& buffer) { return buffer.name == "head.weight.grad"; });
  };
  Layout layout = FoldedOver(2, 3);
  EXPECT_TRUE(has(layout));
  EXPECT_FALSE(has(FoldedOver(1, 3)));
  layout.pp_size = 1;
  EXPECT_FALSE(has(layout));
}

// ---- weave plans

WeavePlan DefaultPlanOf(const Layout& layout, Rank rank, int forward_chunk) {
  const EngineSpec spec = SpecOf(layout);
  StepProgram step = Emit(spec, rank).step;
  for (auto* pass : {RecomputeActivations, SplitChunks, Helix, ArrangePipeline})
    EXPECT_EQ(pass(spec, &step), absl::OkStatus());
  Weaver weaver(step, FindUnit(step, absl::StrCat("forward.", forward_chunk, "|backward.",
                                                  1 - forward_chunk)));
  WeavePlan plan = DefaultWeavePlan(&weaver, layout.sequence_parallel);
  plan.forward_chunk = forward_chunk;
  plan.backward_chunk = 1 - forward_chunk;
  return plan;
}

std::string BothPlansOf(const Layout& layout, Rank rank) {
  return PrintWeavePlan(DefaultPlanOf(layout, rank, 0)) +
         PrintWeavePlan(DefaultPlanOf(layout, rank, 1));
}

TEST(FoldedPlanTest, DefaultPlansAreGolden) {
  Layout layout = FoldedOver(3, 4);
  layout.tp_size = 2;
  ExpectGoldenText("schedule/folded_plan_first", BothPlansOf(layout, 0));
  ExpectGoldenText("schedule/folded_plan_middle", BothPlansOf(layout, 2));
  layout.sequence_parallel = true;
  ExpectGoldenText("schedule/folded_plan_sequence_parallel", BothPlansOf(layout, 2));
}

// Written out, the default plans give the same program as none, also where layers begin further up;
// another plan gives another program.
TEST(FoldedPlanTest, APlanDecidesTheOrderOnEveryStage) {
  for (bool sequence_parallel : {false, true}) {
    Layout layout = FoldedOver(2, 4, 2);
    layout.tp_size = 2;
    layout.sequence_parallel = sequence_parallel;
    for (Rank rank : {Rank(0), Rank(2)}) {
      EngineSpec spec = SpecOf(layout);
      const std::string none = Print(PlanOf(spec, rank).program);
      spec.schedule.weave = BothPlansOf(layout, rank);
      EXPECT_EQ(Print(PlanOf(spec, rank).program), none);
      spec.schedule.weave = "weave f0|b1 pace=1\n  b d.fc2 L1\nweave f1|b0 pace=1\n  b d.fc2 L1\n";
      EXPECT_NE(Print(PlanOf(spec, rank).program), none);
    }
  }
}

// Shuffled lines, some of them left out, of one cell or of both: slow, but correct on every stage.
TEST(FoldedPlanTest, EveryPlanGivesACorrectProgram) {
  std::mt19937 random(3);
  for (bool sequence_parallel : {false, true}) {
    for (int run = 0; run < 12; ++run) {
      Layout layout = FoldedOver(2, 4, 2);
      layout.tp_size = 2;
      layout.sequence_parallel = sequence_parallel;
      layout.recompute = run % 2 == 0 ? Recompute::kNone : Recompute::kFull;
      std::string text;
      for (int chunk : {0, 1}) {
        if (run % 3 == chunk) continue;
        WeavePlan plan = DefaultPlanOf(layout, 0, chunk);
        std::shuffle(plan.lines.begin(), plan.lines.end(), random);
        plan.lines.resize(plan.lines.size() / 2);
        plan.pace = static_cast<int>(random() % 4);
        text += PrintWeavePlan(plan);
      }
      EXPECT_EQ(VerdictOf(layout, Variant::kSchedule, text), absl::OkStatus()) << text;
    }
  }
}

// ---- memory

// Of activations so large that their alignment does not count.
int64_t PeakOf(const Layout& layout, Rank rank) {
  const EngineSpec spec = stretto::SpecOf(
      layout,
      {.hidden = 64, .heads = 4, .ffn_hidden = 256, .sequence_length = 32, .vocab_size = 100});
  return *PeakLiveActivations(PlanOf(spec, rank).program);
}

// Activations of forward through a layer are the difference that one more layer makes.
TEST(FoldedMemoryTest, EveryStageKeepsTheActivationsOfTwiceAsManyChunksAsStagesAndOne) {
  const auto unfolded = [](int layers) {
    Layout layout = {.tp_size = 1, .slices = {2}, .layers = layers};
    return PeakOf(layout, 0);
  };
  const auto of_layer = static_cast<double>(unfolded(9) - unfolded(5)) / 4;
  for (int stages : {2, 4}) {
    for (int stage = 0; stage < stages; ++stage) {
      const auto peak = [&](int layers_of_chunk) {
        return PeakOf(FoldedOver(stages, 3 * stages, layers_of_chunk), Rank::Of(stage));
      };
      const double chunks = static_cast<double>(peak(6) - peak(4)) / (2 * of_layer);
      EXPECT_LE(chunks, 2 * stages + 1.0) << "stage " << stage << " of " << stages;
      EXPECT_GE(chunks, 2 * stages - 0.1) << "stage " << stage << " of " << stages;
    }
  }
}

}  // namespace
}  // namespace stretto
