// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/calibrate/settle.h"

#include <vector>

#include "gtest/gtest.h"

namespace stretto::bench {
namespace {

TEST(SettleTest, SteadyTimesTakeTheFewestRounds) {
  int calls = 0;
  const absl::StatusOr<Repeats> found =
      Repeat(Values::kTimes, [&]() -> absl::StatusOr<double> { return 1 + 0.01 * ++calls; });

  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->settled);
  EXPECT_EQ(calls, kSettledRounds);
  EXPECT_DOUBLE_EQ(found->median, 1.03);
  EXPECT_DOUBLE_EQ(found->spread, 1.05 / 1.01 - 1);
}

// Two thirds of the calls are disturbed. What is undisturbed is the shortest third of the times.
TEST(SettleTest, TimesMayBeDisturbedMoreOften) {
  int calls = 0;
  const auto measure = [&]() -> absl::StatusOr<double> {
    return ++calls % 3 == 0 ? 1.0 : 1.2 + 0.2 * (calls % 3);
  };
  const absl::StatusOr<Repeats> found = Repeat(Values::kTimes, measure);

  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->settled);
  EXPECT_EQ(calls, 15);
  EXPECT_EQ(found->median, 1);
}

// The quiet times are those within 10 % of the shortest, however many they are, as in a benchmark's
// rounds: the median is not that of the fastest moments alone.
TEST(SettleTest, AllQuietTimesCount) {
  const std::vector<double> times = {9.0, 1.05, 1.0, 1.07, 8.0, 1.06, 1.08};
  size_t calls = 0;
  const absl::StatusOr<Repeats> found =
      Repeat(Values::kTimes, [&]() -> absl::StatusOr<double> { return times.at(calls++); });

  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->settled);
  EXPECT_EQ(calls, times.size());
  EXPECT_EQ(found->median, 1.06);
  EXPECT_NEAR(found->spread, 0.08, 1e-9);
  EXPECT_EQ(found->spread_of_cost(), found->spread);
}

TEST(SettleTest, TheFewestRoundsOfAnyValuesAreEnough) {
  int calls = 0;
  const absl::StatusOr<Repeats> found =
      Repeat(Values::kAny, [&]() -> absl::StatusOr<double> { return 1.0 * ++calls; });

  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->settled);
  EXPECT_EQ(calls, kSettledRounds);
  EXPECT_EQ(found->median, 3);
  EXPECT_EQ(found->spread, 4);
  EXPECT_EQ(found->spread_of_cost(), 0);
}

TEST(SettleTest, TimesOfWhichTheShortestDifferHaveNotSettled) {
  int calls = 0;
  const absl::StatusOr<Repeats> found =
      Repeat(Values::kTimes, [&]() -> absl::StatusOr<double> { return 1 + 0.1 * ++calls; });

  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_FALSE(found->settled);
  EXPECT_EQ(calls, kMostRounds);
  EXPECT_NEAR(found->spread, 3, 1e-9);
}

TEST(SettleTest, ErrorsOfTheMeasurementArePassedOn) {
  const auto fail = []() -> absl::StatusOr<double> { return absl::InternalError("lost"); };
  EXPECT_EQ(Repeat(Values::kTimes, fail).status(), absl::InternalError("lost"));
  EXPECT_FALSE(IsUnsettled(absl::InternalError("lost")));
}

}  // namespace
}  // namespace stretto::bench
