// SPDX-License-Identifier: Apache-2.0
#include "tests/parity/matrix.h"

#include <array>
#include <vector>

#include "gtest/gtest.h"
#include "tests/parity/agreement.h"

namespace stretto::parity {
namespace {

TEST(MatrixTest, ThePairwiseSetHasEveryPairOfTheFullMatrix) {
  std::set<ValuePair> covered, full;
  for (const Row& row : PairwiseRows()) {
    EXPECT_TRUE(Allowed(row));
    covered.merge(PairsOf(row));
  }
  for (const Row& row : FullMatrixRows()) full.merge(PairsOf(row));
  EXPECT_EQ(full, AllPairs());
  EXPECT_EQ(covered, full);
}

class PairwiseTest : public ::testing::TestWithParam<Layout> {};

TEST_P(PairwiseTest, AgreesWithItsOracleAndItsBaseline) { ExpectAgreement(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Layouts, PairwiseTest, ::testing::ValuesIn(LayoutsOf(PairwiseRows())),
                         NameOfLayout);

// Stages of several chunks: more than two, with layers that these do not share evenly, over steps
// that passes shorten, with a tied head and without.
std::vector<Layout> Chunks() {
  const Layout chunked = {
      .tp_size = 1, .pp_size = 2, .chunks = 2, .pipeline = "interleaved_1f1b", .slices = {4}};
  std::vector<Layout> layouts;
  for (const auto& [stages, chunks, micro_batches] :
       {std::array{2, 2, 26}, {2, 3, 8}, {3, 2, 9}, {4, 3, 16}}) {
    for (Family family : {Family::kGpt, Family::kLlama}) {
      Layout layout = chunked;
      layout.family = family;
      layout.pp_size = stages;
      layout.chunks = chunks;
      layout.layers = stages * chunks + 1;
      layout.micro_batches = micro_batches;
      layouts.push_back(layout);
    }
  }
  return layouts;
}

INSTANTIATE_TEST_SUITE_P(Chunks, PairwiseTest, ::testing::ValuesIn(Chunks()), NameOfLayout);

}  // namespace
}  // namespace stretto::parity
