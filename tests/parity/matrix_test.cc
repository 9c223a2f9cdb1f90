#include "tests/parity/matrix.h"

#include "gtest/gtest.h"
#include "tests/parity/agreement.h"
#include "worker/engine/schedule/plan.h"

namespace stretto::parity {
namespace {

TEST(MatrixTest, ASchedulesRefusalsAreThoseOfTheTable) {
  ASSERT_EQ(ScheduleNames().size(), std::size(kTakes));
  std::vector<Row> rows = {{}};
  for (Axis axis : {kSchedule, kSlices, kSplits, kDefer}) {
    std::vector<Row> longer;
    for (Row row : rows) {
      for (row[axis] = 0; row[axis] < kValues[axis]; ++row[axis]) longer.push_back(row);
    }
    rows = std::move(longer);
  }
  for (const Row& row : rows) {
    const Layout layout = LayoutOf(row);
    const absl::Status status = BuildPlan(SpecOf(layout), 0).status();
    EXPECT_EQ(status.code(),
              Allowed(row) ? absl::StatusCode::kOk : absl::StatusCode::kInvalidArgument)
        << NameOfLayout({layout, 0}) << ": " << status;
  }
}

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
