// SPDX-License-Identifier: Apache-2.0

// Stages of other TP sizes or other numbers of replicas change the order of sums and nothing else,
// and no transfer changes a bit.

#include "gtest/gtest.h"
#include "tests/parity/agreement.h"
#include "tests/parity/specs.h"

namespace stretto::parity {
namespace {

std::vector<Layout> UnlikeLayouts() {
  std::vector<Layout> layouts;
  for (Family family : EveryFamily()) {
    for (const std::vector<StageSpec>& stages :
         {std::vector<StageSpec>{{2, 4}, {1, 2}, {1, 1}}, {{1, 1}, {3, 4}}}) {
      for (bool sequence_parallel : {false, true}) {
        for (Transfer transfer : {Transfer::kAuto, Transfer::kGather}) {
          if (sequence_parallel && transfer == Transfer::kGather) continue;  // nobody gathers
          layouts.push_back({.family = family,
                             .schedule = "domino_row",
                             .tp_size = 4,
                             .pp_size = static_cast<int>(stages.size()),
                             .stages = stages,
                             .transfer = transfer,
                             .slices = {1, 3},
                             .sequence_parallel = sequence_parallel,
                             .dropout = 0.1,
                             .micro_batches = 4,
                             .layers = 4});
        }
      }
    }
  }
  return layouts;
}

class UnlikeStagesTest : public ::testing::TestWithParam<Layout> {};

TEST_P(UnlikeStagesTest, AgreeWithTheirOracleAndUniformStages) { ExpectAgreement(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Layouts, UnlikeStagesTest, ::testing::ValuesIn(UnlikeLayouts()),
                         NameOfLayout);

// The head is tied to an embedding whose shards are other ones; the replicas share the updates.
TEST(TiedStagesTest, ShardsOfATiedEmbeddingMayDiffer) {
  for (const std::vector<StageSpec>& stages :
       {std::vector<StageSpec>{{1, 4}, {1, 2}}, {{1, 1}, {1, 4}}}) {
    for (int zero : {0, 1}) {
      ExpectAgreement({.tp_size = 4,
                       .dp_size = 2,
                       .zero = zero,
                       .pp_size = 2,
                       .stages = stages,
                       .micro_batches = 4});
    }
  }
}

// Replicas whose borders are those of no other stage's, and one that has replicas on both sides.
std::vector<Layout> UnlikeReplicas() {
  std::vector<Layout> layouts;
  for (Family family : EveryFamily()) {
    for (const std::vector<StageSpec>& stages :
         {std::vector<StageSpec>{{1, 1, 2}, {1, 1, 3}, {1, 1, 6}},
          {{1, 2, 3}, {1, 4, 1}, {1, 2, 2}}}) {
      for (int zero : {0, 1}) {
        layouts.push_back({.family = family,
                           .schedule = "domino_row",
                           .tp_size = stages[0].tp_size,
                           .dp_size = 6,
                           .zero = zero,
                           .pp_size = 3,
                           .stages = stages,
                           .pipeline = "eager_1f1b",
                           .transfer = zero == 0 ? Transfer::kChain : Transfer::kSend,
                           .slices = {1, 3},
                           .dropout = 0.1,
                           .micro_batches = 3,
                           .layers = 3});
      }
    }
  }
  return layouts;
}

class UnlikeReplicasTest : public ::testing::TestWithParam<Layout> {};

TEST_P(UnlikeReplicasTest, AgreeWithTheirOracleAndUniformReplicas) {
  ExpectAgreement(GetParam());
  // With one TP size, only contributions to gradients of parameters are added in another order.
  Layout uniform = GetParam();
  if (!TpSizesAreEqual(uniform)) return;
  uniform.stages.clear();
  const Options options = ThreeSteps(uniform);
  const Result found = Train(SpecOf(GetParam()), options),
               expected = Train(SpecOf(uniform), options);
  EXPECT_TRUE(SameBits(found.steps[0].token_losses, expected.steps[0].token_losses));
  const EngineSpec spec = SpecOf(uniform);
  ExpectGradientsWithin(WgradOrderBound(spec), spec.model, found.gradients, expected.gradients);
  ExpectLossesWithin(kF32LossBound, found, expected);
}

INSTANTIATE_TEST_SUITE_P(Layouts, UnlikeReplicasTest, ::testing::ValuesIn(UnlikeReplicas()),
                         NameOfLayout);

}  // namespace
}  // namespace stretto::parity
