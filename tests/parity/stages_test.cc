// SPDX-License-Identifier: Apache-2.0

// Stages of other TP sizes change the order of sums and nothing else, and no transfer changes a
// bit.

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

}  // namespace
}  // namespace stretto::parity
