// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/common/disturbance.h"

#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stretto::bench {
namespace {

TEST(DisturbanceTest, TheSpreadIsOfTheLongestRoundOverTheShortest) {
  EXPECT_DOUBLE_EQ(SpreadOf({4, 5, 4.5}), 0.25);
  EXPECT_EQ(SpreadOf({3}), 0);
}

TEST(DisturbanceTest, QuietRoundsAreThoseCloseToTheShortest) {
  EXPECT_THAT(QuietOf({1.3, 1, 1.09, 5, 1.1}), ::testing::ElementsAre(1, 2, 4));
  EXPECT_THAT(QuietOf({7}), ::testing::ElementsAre(0));
}

TEST(DisturbanceTest, RoundsWithinATenthAreNotDisturbed) {
  EXPECT_THAT(DisturbancesOf({{"steady", {1, 1.09, 1.05}}, {"once", {7}}}), ::testing::IsEmpty());
}

TEST(DisturbanceTest, ProgramsThatDifferByMoreAreNamedTheWorstFirst) {
  const std::vector<Disturbance> found =
      DisturbancesOf({{"a", {1, 1.2}}, {"steady", {1, 1}}, {"b", {2, 3, 2.5}}});

  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].program, "b");
  EXPECT_DOUBLE_EQ(found[0].spread, 0.5);
  EXPECT_EQ(found[1].program, "a");
  EXPECT_EQ(ToText(found),
            "disturbed: rounds of b differ by 50.0 %, expected at most 10 %\n"
            "disturbed: rounds of a differ by 20.0 %, expected at most 10 %\n"
            "The run was disturbed: it has no ratios. Repeat it on an idle machine.\n");
  EXPECT_EQ(ToText({}), "");
}

TEST(DisturbanceTest, ADisturbedReportHasReasonsInPlaceOfRatios) {
  nlohmann::ordered_json report = {{"step", 2}};
  const std::vector<Disturbance> disturbed = {{"a", 0.25}};
  AddTo(&report, disturbed);

  EXPECT_EQ(report.dump(),
            R"({"step":2,"most_spread":0.1,"disturbed":[{"program":"a","spread":0.25}]})");
  EXPECT_EQ(RatioText(0.5, disturbed), "-");
  EXPECT_TRUE(RatioJson(0.5, disturbed).is_null());
  EXPECT_EQ(RatioText(0.5, {}), "0.500");
  EXPECT_EQ(RatioJson(0.5, {}), 0.5);
}

}  // namespace
}  // namespace stretto::bench
