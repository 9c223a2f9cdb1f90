// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/calibrate/settle.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/spread.h"

namespace stretto::bench {
namespace {

using ::testing::ElementsAre;

TEST(SettleTest, SteadyValuesTakeTheFewestRounds) {
  int calls = 0;
  const absl::StatusOr<Repeats> settled = Settle("x", [&]() -> absl::StatusOr<std::vector<double>> {
    ++calls;
    return std::vector<double>{1 + 0.01 * calls, 2};
  });

  ASSERT_TRUE(settled.ok()) << settled.status();
  EXPECT_EQ(calls, kSettledRounds);
  EXPECT_THAT(settled->medians, ElementsAre(1.03, 2));
  EXPECT_DOUBLE_EQ(settled->spread, 1.05 / 1.01 - 1);
}

TEST(SettleTest, ADisturbedRoundIsLeftOut) {
  int calls = 0;
  const absl::StatusOr<Repeats> settled = Settle("x", [&]() -> absl::StatusOr<std::vector<double>> {
    return std::vector<double>{++calls == 3 ? 9.0 : 1.0};
  });

  ASSERT_TRUE(settled.ok()) << settled.status();
  EXPECT_EQ(calls, kSettledRounds + 1);
  EXPECT_THAT(settled->medians, ElementsAre(1));
  EXPECT_EQ(settled->spread, 0);
}

// Every third round is disturbed. Four of six agree, which are too few, and then five of seven.
TEST(SettleTest, AThirdOfTheRoundsMayBeDisturbed) {
  int calls = 0;
  const absl::StatusOr<Repeats> settled = Settle("x", [&]() -> absl::StatusOr<std::vector<double>> {
    return std::vector<double>{++calls % 3 == 0 ? 1.0 + calls : 1.0};
  });

  ASSERT_TRUE(settled.ok()) << settled.status();
  EXPECT_EQ(calls, 7);
  EXPECT_THAT(settled->medians, ElementsAre(1));
}

TEST(SettleTest, ValuesThatNeverAgreeAreRefused) {
  int calls = 0;
  const absl::Status status =
      Settle("gelu f32[4] > f32[4]", [&]() -> absl::StatusOr<std::vector<double>> {
        return std::vector<double>{1, ++calls % 2 == 0 ? 1.0 : 1.25};
      }).status();

  EXPECT_EQ(calls, kMostRounds);
  EXPECT_TRUE(IsUnsettled(status));
  EXPECT_EQ(status.message(),
            "gelu f32[4] > f32[4]: found repeats of which the closest two thirds spread by 25.0 % "
            "and the interval of the median by 25.0 %, expected at most 10 % or 5.0 % within 100 "
            "rounds; calibrate on an idle machine");
}

// Ratios that differ evenly by 20 %, as beside a neighbour that comes and goes: no two thirds agree,
// but after some rounds the median is known within 5 %.
TEST(SettleTest, AKnownMedianSettlesRatiosThatNeverAgree) {
  int calls = 0;
  const absl::StatusOr<Repeats> settled = Settle("x", [&]() -> absl::StatusOr<std::vector<double>> {
    return std::vector<double>{1 + 0.01 * (8 * calls++ % 21)};
  });

  ASSERT_TRUE(settled.ok()) << settled.status();
  EXPECT_EQ(calls, 55);
  EXPECT_NEAR(settled->medians[0], 1.10, 0.025);
  EXPECT_LE(settled->spread, kMostInterval);
}

// What matters less in a step need not be known as well.
TEST(SettleTest, AnIntervalMayBeAsWideAsIsAskedFor) {
  int calls = 0;
  const auto measure = [&]() -> absl::StatusOr<std::vector<double>> {
    return std::vector<double>{1 + 0.01 * (16 * calls++ % 41)};
  };
  const absl::StatusOr<Repeats> settled = Settle("x", measure, 0.15);

  ASSERT_TRUE(settled.ok()) << settled.status();
  EXPECT_LT(calls, 40);
  EXPECT_NEAR(settled->medians[0], 1.20, 0.05);
  EXPECT_GT(settled->interval, kMostInterval);
  EXPECT_LE(settled->interval, 0.15);

  calls = 0;
  EXPECT_TRUE(IsUnsettled(Settle("x", measure, 0.01).status()));
  EXPECT_EQ(calls, kMostRounds);
}

// Two thirds of the calls are disturbed. What is undisturbed is the shortest third of the times.
TEST(SettleTest, TimesMayBeDisturbedMoreOften) {
  int calls = 0;
  const auto measure = [&]() -> absl::StatusOr<std::vector<double>> {
    return std::vector<double>{++calls % 3 == 0 ? 1.0 : 1.2 + 0.2 * (calls % 3)};
  };
  const absl::StatusOr<Repeats> found = Repeat(Values::kTimes, measure);

  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->settled);
  EXPECT_EQ(calls, 15);
  EXPECT_THAT(found->medians, ElementsAre(1));
}

// The quiet times are those within 10 % of the shortest, however many they are, as in a benchmark's
// rounds: the median is not that of the fastest moments alone.
TEST(SettleTest, AllQuietTimesCount) {
  const std::vector<double> times = {9.0, 1.05, 1.0, 1.07, 8.0, 1.06, 1.08};
  size_t calls = 0;
  const absl::StatusOr<Repeats> found =
      Repeat(Values::kTimes, [&]() -> absl::StatusOr<std::vector<double>> {
        return std::vector<double>{times.at(calls++)};
      });

  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->settled);
  EXPECT_EQ(calls, times.size());
  EXPECT_THAT(found->medians, ElementsAre(1.06));
  EXPECT_NEAR(found->spread, 0.08, 1e-9);
  EXPECT_EQ(found->spread_of_cost(), found->spread);
}

TEST(SettleTest, TheFewestRoundsOfAnyValuesAreEnough) {
  int calls = 0;
  const absl::StatusOr<Repeats> found = Repeat(
      Values::kAny,
      [&]() -> absl::StatusOr<std::vector<double>> { return std::vector<double>{1.0 * ++calls}; });

  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->settled);
  EXPECT_EQ(calls, kSettledRounds);
  EXPECT_THAT(found->medians, ElementsAre(3));
  EXPECT_EQ(found->spread, 4);
  EXPECT_EQ(found->spread_of_cost(), 0);
}

TEST(SettleTest, TimesOfWhichTheShortestDifferHaveNotSettled) {
  int calls = 0;
  const absl::StatusOr<Repeats> found =
      Repeat(Values::kTimes, [&]() -> absl::StatusOr<std::vector<double>> {
        return std::vector<double>{1 + 0.1 * ++calls};
      });

  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_FALSE(found->settled);
  EXPECT_EQ(calls, kMostRounds);
  EXPECT_NEAR(found->spread, 3, 1e-9);
}

TEST(SettleTest, ErrorsOfTheMeasurementArePassedOn) {
  EXPECT_EQ(
      Settle("x",
             []() -> absl::StatusOr<std::vector<double>> { return absl::InternalError("lost"); })
          .status(),
      absl::InternalError("lost"));
  EXPECT_FALSE(IsUnsettled(absl::InternalError("lost")));
}

}  // namespace
}  // namespace stretto::bench
