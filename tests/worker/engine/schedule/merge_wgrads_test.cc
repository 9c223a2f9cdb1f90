// SPDX-License-Identifier: Apache-2.0

// One weight gradient product for all slices of one or several micro-batches.

#include <map>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/specs.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;

Layout Merged(std::vector<int> slices) {
  Layout layout = Domino(std::move(slices), 2);
  layout.merge_wgrads = 1;
  return layout;
}

// Over two of four micro-batches.
Layout MergedOverTwo(const std::string& schedule = "domino_row") {
  Layout layout = LayoutOf(schedule);
  layout.micro_batches = 4;
  layout.merge_wgrads = 2;
  return layout;
}

int64_t ActivationsOf(const Layout& layout) {
  return PlanOf(layout).arenas[ArenaClass::kActivation];
}

// Per gradient and micro-batch, the operations that add to it, in program order.
std::map<std::pair<std::string, int>, std::vector<Op>> ContributionsIn(const Program& program) {
  std::map<std::pair<std::string, int>, std::vector<Op>> contributions;
  for (const Op& op : program.ops) {
    if (InfoOf(op.kind).role != OperationRole::kWeightGradient) continue;
    for (BufferId id : op.out) {
      const std::string& name = program.buffers[id].name;
      contributions[{name, op.tag.micro_batch}].push_back(op);
    }
  }
  return contributions;
}

std::vector<Layout> MergingLayouts() {
  std::vector<Layout> layouts;
  for (const char* schedule : {"domino_row", "domino_hybrid"}) {
    for (const std::vector<int>& slices : {std::vector<int>{1, 1}, {3, 1, 2}}) {
      for (Family family : EveryFamily()) {
        for (bool sequence_parallel : {false, true}) {
          for (Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
            Layout layout = Merged(slices);
            layout.schedule = schedule;
            layout.splits = LayoutOf(schedule).splits;
            layout.family = family;
            layout.sequence_parallel = sequence_parallel;
            layout.recompute = recompute;
            layouts.push_back(layout);
            layout.dropout = 0.5;  // gives the branches gradients of their own
            layouts.push_back(layout);
            layout.merge_wgrads = layout.micro_batches = 3;
            layouts.push_back(layout);
            layout.micro_batches = 6;
            layouts.push_back(std::move(layout));
          }
        }
      }
    }
  }
  return layouts;
}

TEST(MergeWgradsTest, EachWeightHasOneProductOfAllRowsOfItsMicroBatches) {
  for (const Layout& layout : MergingLayouts()) {
    const EngineSpec spec = SpecOf(layout);
    const Program program = PlanOf(layout).program;
    const int64_t rows =
        int64_t{layout.merge_wgrads} * spec.micro_batch_size * spec.model.sequence_length;
    std::map<std::pair<BufferId, int>, int> products;  // by gradient and micro-batch
    for (const Op& op : program.ops) {
      if (op.kind != OpKind::kGemmWgrad) continue;
      EXPECT_EQ(op.tag.micro_batch % layout.merge_wgrads, layout.merge_wgrads - 1);
      ++products[{op.out[0], op.tag.micro_batch}];
      for (BufferId operand : {op.in[0], op.in[1]}) {
        const Root root = RootOf(program.buffers, operand);
        EXPECT_EQ(root.element, 0);
        EXPECT_EQ(program.buffers[operand].shape[0], rows);
        EXPECT_EQ(program.buffers[root.buffer].shape[0], rows);
      }
    }
    // qkv, proj, fc1 and fc2 of two layers, and the head.
    EXPECT_EQ(products.size(),
              static_cast<size_t>(layout.micro_batches / layout.merge_wgrads) * (2 * 4 + 1))
        << Describe(layout);
    for (const auto& [weight, count] : products)
      EXPECT_EQ(count, 1) << Describe(layout) << " %" << weight.first.value();
  }
}

TEST(MergeWgradsTest, TheProductStandsWhereThatOfTheLastSliceStood) {
  const auto merged = ContributionsIn(PlanOf(Merged({3, 1, 2})).program);
  for (const char* name : {"layers.1.mlp.fc2.weight.grad", "layers.0.attention.qkv.weight.grad"}) {
    const std::vector<Op>& ops = merged.at({name, 1});
    ASSERT_EQ(ops.size(), 1u);
    EXPECT_EQ(ops[0].tag.slice, 2);
  }
}

TEST(MergeWgradsTest, OnlyProductsAreMerged) {
  const auto merged = ContributionsIn(PlanOf(Merged({1, 1})).program);
  for (const char* name : {"layers.1.mlp.fc2.bias.grad", "layers.0.ln1.weight.grad",
                           "final_norm.bias.grad", "embedding.position.weight.grad"})
    EXPECT_EQ(merged.at({name, 0}).size(), 2u) << name;
}

TEST(MergeWgradsTest, TheTiedEmbeddingTakesTheHeadsProductThenEachSlicesTokens) {
  const auto merged = ContributionsIn(PlanOf(Merged({1, 1})).program);
  std::vector<std::string> kinds;
  for (const Op& op : merged.at({"embedding.token.weight.grad", 1}))
    kinds.push_back(InfoOf(op.kind).name + std::string(" s") + std::to_string(op.tag.slice));
  EXPECT_THAT(kinds, ElementsAre("gemm_wgrad s1", "embed_grad s0", "embed_grad s1"));
}

TEST(MergeWgradsTest, SmallGradientsAndTheEmbeddingsStayPerMicroBatch) {
  const auto merged = ContributionsIn(PlanOf(MergedOverTwo()).program);
  for (int mb = 0; mb < 4; ++mb) {
    for (const char* name : {"layers.1.mlp.fc2.bias.grad", "layers.0.ln1.weight.grad"})
      EXPECT_EQ(merged.at({name, mb}).size(), 2u) << name;
    EXPECT_EQ(merged.at({"embedding.token.weight.grad", mb}).size(), mb % 2 == 1 ? 3u : 2u);
    EXPECT_EQ(merged.contains({"layers.1.mlp.fc2.weight.grad", mb}), mb % 2 == 1);
  }
}

TEST(MergeWgradsTest, EveryScheduleMergesOverMicroBatches) {
  for (const std::string& name : UnwovenSchedules()) {
    const RankPlan plan = PlanOf(MergedOverTwo(name));
    std::map<int, int> products;
    for (const Op& op : plan.program.ops) {
      if (op.kind == OpKind::kGemmWgrad) ++products[op.tag.micro_batch];
    }
    EXPECT_EQ(products, (std::map<int, int>{{1, 9}, {3, 9}})) << name;
  }
}

// What the products read is there for both micro-batches, and nothing else is.
TEST(MergeWgradsTest, MemoryGrowsByWhatTheProductsRead) {
  for (Family family : EveryFamily()) {
    Layout layout = MergedOverTwo();
    layout.family = family;
    const RankPlan two = PlanOf(layout);
    std::set<BufferId> read;
    int64_t dy = 0, x = 0;  // bytes, of both micro-batches
    for (const Op& op : two.program.ops) {
      if (op.kind != OpKind::kGemmWgrad) continue;
      for (size_t operand : {size_t{0}, size_t{1}}) {
        const BufferId root = RootOf(two.program.buffers, op.in[operand]).buffer;
        const int64_t bytes = two.program.buffers[root].bytes();
        if (read.insert(root).second) (operand == 0 ? dy : x) += bytes;
      }
    }
    EXPECT_EQ(read.size(), 2u * (2 * 4 + 1));
    layout.merge_wgrads = 1;
    const int64_t one = ActivationsOf(layout);
    const int64_t all = two.arenas[ArenaClass::kActivation];
    EXPECT_GT(all, one);
    EXPECT_GE(all, dy + x);
    // A micro-batch alone has every x at the end of its forward; what it has beside that is no more
    // now than then.
    EXPECT_LE(all, dy + x + (one - x / 2));
  }
}

// What the search for as many as fit counts on.
TEST(MergeWgradsTest, MoreMicroBatchesTakeMoreMemory) {
  for (const std::string& schedule : UnwovenSchedules()) {
    Layout layout = MergedOverTwo(schedule);
    layout.micro_batches = 12;
    int64_t before = 0;
    for (int merged : {1, 2, 3, 4, 6, 12}) {
      layout.merge_wgrads = merged;
      const int64_t bytes = ActivationsOf(layout);
      EXPECT_GT(bytes, before) << schedule << " " << merged;
      before = bytes;
    }
  }
}

// Long enough for passes to work on a part of it.
TEST(MergeWgradsTest, ALongStepRepeatsItsUnits) {
  for (int merged : {2, 3}) {
    Layout layout = MergedOverTwo();
    layout.merge_wgrads = merged;
    layout.micro_batches = 10 * merged;
    const RankPlan plan = PlanOf(layout);
    EXPECT_EQ(plan.step.instances.size(), 12u);
    EXPECT_EQ(plan.step.micro_batches, 10 * merged);
    std::set<int> seen;
    for (const Op& op : plan.program.ops) seen.insert(op.tag.micro_batch);
    EXPECT_EQ(seen.size(), static_cast<size_t>(10 * merged) + 1);  // and -1
    layout.micro_batches = 4 * merged;
    EXPECT_EQ(plan.arenas[ArenaClass::kActivation], ActivationsOf(layout));
  }
}

TEST(MergeWgradsTest, WithoutItEachSliceHasItsOwn) {
  const auto separate = ContributionsIn(PlanOf(Domino({3, 1, 2}, 2)).program);
  EXPECT_EQ(separate.at({"layers.1.mlp.fc2.weight.grad", 1}).size(), 3u);
}

TEST(MergeWgradsTest, OneSliceHasNothingToMerge) {
  Layout layout = LayoutOf("megatron_async");
  const size_t operations = PlanOf(layout).program.ops.size();
  layout.merge_wgrads = 1;
  EXPECT_EQ(PlanOf(layout).program.ops.size(), operations);
}

}  // namespace
}  // namespace stretto
