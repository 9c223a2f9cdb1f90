// SPDX-License-Identifier: Apache-2.0
#include "tests/parity/matrix.h"

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

}  // namespace
}  // namespace stretto::parity
