// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/calibrate/known_ratios.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/bench/calibrate/settle.h"

namespace stretto::bench {
namespace {

using ::testing::Each;
using ::testing::Gt;

// Returns `values` in turn.
std::function<absl::StatusOr<std::vector<double>>()> InTurn(std::vector<double> values,
                                                            int* calls) {
  return [values, calls]() -> absl::StatusOr<std::vector<double>> {
    return std::vector<double>{values[static_cast<size_t>((*calls)++) % values.size()]};
  };
}

TEST(KnownRatiosTest, ATenthAtEachEndDoesNotCount) {
  const KnownRatio found = TrimmedMeanOf({1, 9, 1, 1, 1, 0.1, 3, 3, 3, 3});

  EXPECT_DOUBLE_EQ(found.mean, 2);
  // What was cut counts as 1 and 3, so the deviation is that of five of each.
  EXPECT_NEAR(found.interval, 2 * 1.96 * std::sqrt(10.0 / 9) * std::sqrt(10.0) / 8 / 2, 1e-12);
}

TEST(KnownRatiosTest, TheIntervalIsThatOfTheMeanOfManyValues) {
  std::vector<double> values;
  for (int i = 0; i < 1000; ++i) values.push_back(1 + 0.001 * i);
  const KnownRatio found = TrimmedMeanOf(values);

  EXPECT_NEAR(found.mean, 1.4995, 1e-9);
  // A uniform distribution of width 1 is known a little worse without its ends.
  const double untrimmed = 2 * 1.96 / std::sqrt(12.0 * 1000) / found.mean;
  EXPECT_GT(found.interval, untrimmed);
  EXPECT_LT(found.interval, 1.25 * untrimmed);
}

TEST(KnownRatiosTest, EachRoundMeasuresAllCases) {
  std::string order;
  const auto steady = [&](char name, double value) {
    return RatioCase{std::string(1, name),
                     [&order, name, value]() -> absl::StatusOr<std::vector<double>> {
                       order += name;
                       return std::vector<double>{value, 2 * value};
                     },
                     {.wanted = 0.03, .most = 0.06}};
  };
  const auto found = RepeatRatios({steady('a', 1), steady('b', 3)});

  ASSERT_TRUE(found.ok()) << found.status();
  std::string expected;
  for (int round = 0; round < kLeastRatioRounds; ++round) expected += "ab";
  EXPECT_EQ(order, expected);
  EXPECT_DOUBLE_EQ((*found)[0][1].mean, 2);
  EXPECT_DOUBLE_EQ((*found)[1][0].mean, 3);
  EXPECT_EQ((*found)[1][0].interval, 0);
}

TEST(KnownRatiosTest, ACaseIsDoneWhenItIsKnown) {
  int steady = 0, varied = 0;
  const auto found =
      RepeatRatios({{"a", InTurn({1}, &steady), {.wanted = 0.03, .most = 0.06}},
                    {"b", InTurn({1, 1.05, 1.1, 1.15}, &varied), {.wanted = 0.05, .most = 0.1}}});

  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(steady, kLeastRatioRounds);
  EXPECT_GT(varied, kLeastRatioRounds);
  EXPECT_LT(varied, kMostRatioRounds);
  EXPECT_NEAR((*found)[1][0].mean, 1.075, 0.01);
  EXPECT_LE((*found)[1][0].interval, 0.05);
}

// After the last round, more than the wanted interval is enough.
TEST(KnownRatiosTest, AMeanThatStaysUnknownIsRefused) {
  int calls = 0;
  const auto found =
      RepeatRatios({{"a", InTurn({1, 1.2}, &calls), {.wanted = 0.05, .most = 0.072}}});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(calls, kMostRatioRounds);
  EXPECT_NEAR((*found)[0][0].mean, 1.1, 1e-9);
  EXPECT_THAT(*found, Each(Each(::testing::Field(&KnownRatio::interval, Gt(0.05)))));

  calls = 0;
  const absl::Status status =
      RepeatRatios({{"product beside x", InTurn({1, 1.2}, &calls), {.wanted = 0.05, .most = 0.07}}})
          .status();
  EXPECT_EQ(calls, kMostRatioRounds);
  EXPECT_TRUE(IsUnsettled(status));
  EXPECT_EQ(
      status.message(),
      "product beside x: found means that are known within 7.1 % after 40 rounds, expected at "
      "most 7.0 %; calibrate on an idle machine");
}

TEST(KnownRatiosTest, ErrorsOfTheMeasurementArePassedOn) {
  const auto fail = []() -> absl::StatusOr<std::vector<double>> {
    return absl::InternalError("lost");
  };
  EXPECT_EQ(RepeatRatios({{"x", fail}}).status(), absl::InternalError("lost"));
}

}  // namespace
}  // namespace stretto::bench
