// One weight gradient product for all slices of a micro-batch.

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/specs.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;

Layout Merged(std::vector<int> slices) {
  Layout layout = Domino(std::move(slices), 2);
  layout.merge_wgrads = true;
  return layout;
}

// Per gradient and micro-batch, the operations that add to it, in program order.
std::map<std::pair<std::string, int>, std::vector<Op>> ContributionsIn(const Program& program) {
  std::map<std::pair<std::string, int>, std::vector<Op>> contributions;
  for (const Op& op : program.ops) {
    if (InfoOf(op.kind).role != Role::kWeightGradient) continue;
    for (int id : op.out) {
      const std::string& name = program.buffers[static_cast<size_t>(id)].name;
      contributions[{name, op.tag.micro_batch}].push_back(op);
    }
  }
  return contributions;
}

std::vector<Layout> MergingLayouts() {
  std::vector<Layout> layouts;
  for (const char* schedule : {"domino_row", "domino_hybrid"}) {
    for (const std::vector<int>& slices : {std::vector<int>{1, 1}, {3, 1, 2}}) {
      for (Family family : {Family::kGpt, Family::kLlama}) {
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
            layouts.push_back(std::move(layout));
          }
        }
      }
    }
  }
  return layouts;
}

TEST(MergeWgradsTest, EachWeightHasOneProductOfAllRowsPerMicroBatch) {
  for (const Layout& layout : MergingLayouts()) {
    const EngineSpec spec = SpecOf(layout);
    const Program program = PlanOf(layout).program;
    const int64_t rows = int64_t{spec.micro_batch_size} * spec.model.sequence_length;
    std::map<std::pair<int, int>, int> products;  // by gradient and micro-batch
    for (const Op& op : program.ops) {
      if (op.kind != OpKind::kGemmWgrad) continue;
      ++products[{op.out[0], op.tag.micro_batch}];
      for (int operand : {op.in[0], op.in[1]}) {
        const Root root = RootOf(program.buffers, operand);
        EXPECT_EQ(root.element, 0);
        EXPECT_EQ(program.buffers[static_cast<size_t>(operand)].shape[0], rows);
        EXPECT_EQ(program.buffers[static_cast<size_t>(root.buffer)].shape[0], rows);
      }
    }
    // qkv, proj, fc1 and fc2 of two layers, and the head, twice.
    EXPECT_EQ(products.size(), 2u * (2 * 4 + 1)) << Describe(layout);
    for (const auto& [weight, count] : products)
      EXPECT_EQ(count, 1) << Describe(layout) << " %" << weight.first;
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

TEST(MergeWgradsTest, WithoutItEachSliceHasItsOwn) {
  const auto separate = ContributionsIn(PlanOf(Domino({3, 1, 2}, 2)).program);
  EXPECT_EQ(separate.at({"layers.1.mlp.fc2.weight.grad", 1}).size(), 3u);
}

TEST(MergeWgradsTest, OneSliceHasNothingToMerge) {
  Layout layout = LayoutOf("megatron_async");
  const size_t operations = PlanOf(layout).program.ops.size();
  layout.merge_wgrads = true;
  EXPECT_EQ(PlanOf(layout).program.ops.size(), operations);
}

}  // namespace
}  // namespace stretto
