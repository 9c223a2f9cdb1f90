// SPDX-License-Identifier: Apache-2.0

// Forward of a micro-batch woven with backward of the one before it.

#include "worker/engine/schedule/helix.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/golden.h"
#include "tests/worker/engine/schedule/positions.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/memory/plan.h"
#include "worker/engine/model/emit.h"
#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/units.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;

Layout HelixOver(int micro_batches, int layers = 2, std::vector<int> slices = {2}) {
  return {.schedule = "helix",
          .slices = std::move(slices),
          .micro_batches = micro_batches,
          .layers = layers};
}

// Families, sequence parallelism, slices and what is recomputed.
std::vector<Layout> ManyHelices(int layers) {
  std::vector<Layout> layouts;
  for (Family family : EveryFamily()) {
    for (bool sequence_parallel : {false, true}) {
      for (Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
        for (const std::vector<int>& slices : {std::vector<int>{4}, {2, 2}, {1, 2, 1}}) {
          Layout layout = HelixOver(4, layers, slices);
          layout.family = family;
          layout.sequence_parallel = sequence_parallel;
          layout.recompute = recompute;
          layouts.push_back(layout);
        }
      }
    }
  }
  return layouts;
}

StepProgram WovenStep(const Layout& layout) {
  const EngineSpec spec = SpecOf(layout);
  StepProgram step = Emit(spec, 0).step;
  for (auto* pass : {RecomputeActivations, Helix, ArrangePipeline})
    EXPECT_EQ(pass(spec, &step), absl::OkStatus());
  return step;
}

std::string DefaultPlanOf(const Layout& layout) {
  const StepProgram step = WovenStep(layout);
  Weaver weaver(step, FindUnit(step, "forward|backward|embedding"));
  return PrintWeavePlan(DefaultWeavePlan(&weaver, layout.sequence_parallel));
}

absl::Status StatusOf(const Layout& layout, std::string plan) {
  EngineSpec spec = SpecOf(layout);
  spec.schedule.weave = std::move(plan);
  return BuildPlans(spec).status();
}

TEST(HelixTest, ForwardOfAMicroBatchSharesACellWithBackwardOfTheOneBefore) {
  const StepProgram step = PlanOf(HelixOver(4)).step;
  std::vector<std::string> cells;
  for (const Instance& instance : step.instances) {
    cells.push_back(step.units[instance.unit].name);
    for (int micro_batch : instance.micro_batches)
      cells.back() += " " + std::to_string(micro_batch);
  }
  EXPECT_THAT(cells,
              ElementsAre("begin", "embedding 0", "forward|embedding 0 1",
                          "forward|backward|embedding 1 0 2", "forward|backward|embedding 2 1 3",
                          "forward|backward 3 2", "backward 3", "finish 3"));
  EXPECT_EQ(step.repeat.count(), 2);
}

// The engine takes what a spec may not: it is also how a held-out batch is evaluated.
TEST(HelixTest, OneMicroBatchHasNothingToWeave) {
  EXPECT_EQ(PlanOf(HelixOver(1)).step.instances.size(), 4u);
}

TEST(HelixTest, DefaultPlansAreGolden) {
  Layout layout = HelixOver(3);
  ExpectGoldenText("schedule/helix_plan", DefaultPlanOf(layout));
  layout.recompute = Recompute::kFull;
  ExpectGoldenText("schedule/helix_plan_recompute", DefaultPlanOf(layout));
  layout.sequence_parallel = true;
  ExpectGoldenText("schedule/helix_plan_recompute_sequence_parallel", DefaultPlanOf(layout));
  layout.recompute = Recompute::kNone;
  ExpectGoldenText("schedule/helix_plan_sequence_parallel", DefaultPlanOf(layout));
}

// Written out, the default plan gives the same program as no plan.
TEST(HelixTest, TheDefaultPlanIsAPlanLikeAnyOther) {
  for (const Layout& layout : ManyHelices(3)) {
    EngineSpec spec = SpecOf(layout);
    const Program none = PlanOf(spec).program;
    spec.schedule.weave = DefaultPlanOf(layout);
    EXPECT_EQ(Print(PlanOf(spec).program), Print(none)) << Describe(layout);
  }
}

// In a woven cell, products run under every collective of a layer, of either strand.
TEST(HelixTest, AProductMayRunUnderEveryCollectiveOfALayer) {
  for (const Layout& layout : ManyHelices(4)) {
    if (layout.slices.size() > 1) continue;
    const Positions at(PlanOf(layout).program);
    for (OpId i : at.program().ops.ids()) {
      const Op& op = at.op(i);
      const int woven = op.tag.phase == Phase::kForward ? 2 : 1;
      if (!IsCollective(op.kind) || op.tag.layer < 1 || op.tag.layer > 2) continue;
      if (op.tag.micro_batch != woven) continue;
      const std::string under = at.Under(i);
      bool product = false;
      for (const char* word : {"qkv", "attention", "proj", "fc1", "fc2"})
        product = product || under.find(word) != std::string::npos;
      EXPECT_TRUE(product) << Describe(layout) << ": " << PrintTag(op.tag) << " under " << under;
    }
  }
}

// Shuffled lines with barriers, some of them left out: slow, but correct.
TEST(HelixTest, EveryPlanGivesACorrectProgram) {
  std::mt19937 random(3);
  for (const Layout& layout : ManyHelices(3)) {
    WeavePlan plan = *ParseWeavePlan(DefaultPlanOf(layout));
    std::shuffle(plan.lines.begin(), plan.lines.end(), random);
    plan.lines.resize(plan.lines.size() / 2);
    for (int barriers = static_cast<int>(random() % 8); barriers > 0; --barriers) {
      const auto at = static_cast<std::ptrdiff_t>(random() % (plan.lines.size() + 1));
      plan.lines.insert(plan.lines.begin() + at, WeaveLine());
    }
    plan.pace = static_cast<int>(random() % 4);
    EXPECT_EQ(StatusOf(layout, PrintWeavePlan(plan)), absl::OkStatus()) << Describe(layout);
  }
  EXPECT_EQ(StatusOf(HelixOver(3), "weave f0|b0 pace=0"), absl::OkStatus());
}

// The words that specs are checked by are those of the engine's cells.
TEST(HelixTest, EveryWordOfACellIsAWordOfPlansAndTheReverse) {
  std::map<std::pair<Strand, bool>, std::set<std::string>> found;
  const auto add = [&](const Weaver& weaver) {
    for (Strand strand : {Strand::kForward, Strand::kBackward}) {
      for (int role = 0; role < weaver.roles(); ++role) {
        if (StrandOf(role) != strand) continue;
        for (const auto& [word, ops] : weaver.words_of(role))
          found[{strand, std::get<1>(word) >= 0}].insert(std::get<0>(word));
      }
    }
  };
  for (Layout layout : ManyHelices(2)) {
    layout.dropout = 0.1;
    const StepProgram step = WovenStep(layout);
    add(Weaver(step, FindUnit(step, "forward|backward|embedding")));
  }
  Layout folded = {.pp_size = 2, .slices = {2}, .micro_batches = 3, .layers = 4};
  folded = InOrder(folded, "folded");
  for (Rank rank : {Rank(0), Rank(1)}) {
    const EngineSpec spec = SpecOf(folded);
    StepProgram step = Emit(spec, rank).step;
    for (auto* pass : {RecomputeActivations, SplitChunks, Helix, ArrangePipeline})
      EXPECT_EQ(pass(spec, &step), absl::OkStatus());
    for (const char* cell : {"forward.0|backward.1", "forward.1|backward.0"})
      add(Weaver(step, FindUnit(step, cell)));
  }
  for (const auto& [where, words] : found) {
    const std::vector<std::string> known = WeaveWords(where.first, where.second);
    EXPECT_EQ(words, std::set<std::string>(known.begin(), known.end()));
  }
  EXPECT_EQ(found.size(), 4u);
}

// The place of each operation of a program; a woven cell's is that of its micro-batches.
TEST(HelixTest, EveryPlanKeepsPaceAndRecomputesInTurn) {
  std::mt19937 random(5);
  for (Layout layout : ManyHelices(4)) {
    for (int pace : {0, 1, 2}) {
      WeavePlan plan = *ParseWeavePlan(DefaultPlanOf(layout));
      std::shuffle(plan.lines.begin(), plan.lines.end(), random);
      plan.pace = pace;
      EngineSpec spec = SpecOf(layout);
      spec.schedule.weave = PrintWeavePlan(plan);
      const Program program = PlanOf(spec).program;
      std::map<int, OpId> left;            // by layer, the last operation of backward of 0
      std::map<int, OpId> entered, again;  // the first of forward of 1, of recomputation of 0
      std::map<int, OpId> above;           // the first dgrad of the MLP
      for (OpId op : program.ops.ids()) {
        const Tag& tag = program.ops[op].tag;
        if (tag.layer < 0 || tag.phase == Phase::kOptimizer) continue;
        const bool forward = tag.phase == Phase::kForward;
        if (forward && tag.micro_batch == 1 && tag.name != "ln1")
          entered.try_emplace(tag.layer, op);
        if (!forward && tag.micro_batch == 0 && tag.name != "ln1") left[tag.layer] = op;
        if (tag.phase == Phase::kRecompute && tag.micro_batch == 0)
          again.try_emplace(tag.layer, op);
        if (tag.phase == Phase::kBackward && tag.micro_batch == 0 && tag.name == "fc1")
          above.try_emplace(tag.layer, op);
      }
      for (int layer = 0; layer < 4; ++layer) {
        const int behind = 3 - layer + pace;
        if (behind < 4) {
          EXPECT_LT(left.at(behind), entered.at(layer)) << Describe(layout) << layer;
        }
        if (layout.recompute != Recompute::kNone && layer < 3) {
          EXPECT_LT(above.at(layer + 1), again.at(layer)) << Describe(layout) << layer;
        }
      }
    }
  }
}

// What both strands have at once is little more than what a whole forward leaves behind.
class HelixMemoryTest : public testing::TestWithParam<int> {
 protected:
  // Of buffers so large that their alignment does not count.
  static double ActivationsOf(const Layout& layout) {
    const EngineSpec spec =
        stretto::SpecOf(layout, {.hidden = 64,
                                 .heads = 4,
                                 .kv_heads = layout.family == Family::kGpt ? 0 : 2,
                                 .ffn_hidden = 256,
                                 .sequence_length = 32,
                                 .vocab_size = 100});
    return static_cast<double>((*PlanArenas(spec, 0))[ArenaClass::kActivation]);
  }
  // Of megatron_sync.
  static double AloneOf(Layout layout, int layers) {
    layout.schedule = "megatron_sync";
    layout.slices = {4};
    layout.layers = layers;
    return ActivationsOf(layout);
  }
};

TEST_P(HelixMemoryTest, ActivationsStayWithinTwoLayersOfMegatronSync) {
  const int layers = GetParam();
  for (Layout layout : ManyHelices(layers)) {
    double bound = AloneOf(layout, layers) * (1 + 2.0 / layers);
    // What forward of a layer keeps until the layer is done; without recomputation that is counted
    // already.
    Layout kept = layout;
    kept.recompute = Recompute::kNone;
    if (layout.recompute == Recompute::kFull) bound += AloneOf(kept, 2) - AloneOf(kept, 1);
    EXPECT_LE(ActivationsOf(layout) / bound, 1) << Describe(layout);
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, HelixMemoryTest, testing::Values(2, 3, 4, 8, 16, 32),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace stretto
