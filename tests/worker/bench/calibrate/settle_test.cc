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
  Repeated repeats(Values::kTimes);
  for (const double seconds : {9.0, 1.05, 1.0, 1.07, 8.0, 1.06}) repeats.Add({seconds});
  EXPECT_FALSE(repeats.done());
  repeats.Add({1.08});

  EXPECT_TRUE(repeats.done());
  EXPECT_TRUE(repeats.found().settled);
  EXPECT_THAT(repeats.found().medians, ElementsAre(1.06));
  EXPECT_NEAR(repeats.found().spread, 0.08, 1e-9);
  EXPECT_EQ(repeats.found().spread_of_cost(), repeats.found().spread);
  repeats.Add({1.09});
  EXPECT_THAT(repeats.found().medians, ElementsAre(1.07));
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

// The calls of RepeatInRounds, of which measurement 1 is disturbed in its first `disturbed` repeats.
std::vector<size_t> CallsInRounds(int disturbed, bool enough) {
  std::vector<Repeated> measurements(3, Repeated(Values::kTimes));
  std::vector<size_t> calls;
  int repeats = 0;  // of measurement 1
  const absl::Status status = RepeatInRounds(
      absl::MakeSpan(measurements),
      [&](size_t i) -> absl::StatusOr<std::vector<double>> {
        calls.push_back(i);
        return std::vector<double>{i == 1 && repeats++ < disturbed ? 1.0 + repeats : 1.0};
      },
      [&]() -> absl::StatusOr<bool> { return enough; });
  EXPECT_EQ(status, absl::OkStatus());
  return calls;
}

TEST(SettleTest, ARoundRepeatsEachThatIsNotDone) {
  std::vector<size_t> expected;
  for (int round = 0; round < kSettledRounds; ++round) expected.insert(expected.end(), {0, 1, 2});
  EXPECT_EQ(CallsInRounds(0, false), expected);
  expected.insert(expected.end(), {1, 1});
  EXPECT_EQ(CallsInRounds(2, false), expected);
  EXPECT_EQ(CallsInRounds(1000, false).size(), size_t{kMostRounds} + 2 * kSettledRounds);
}

TEST(SettleTest, RoundsEndWhenEnoughHasSettled) {
  EXPECT_EQ(CallsInRounds(1000, true).size(), size_t{3} * kSettledRounds);
}

TEST(SettleTest, ErrorsInRoundsArePassedOn) {
  Repeated one(Values::kTimes);
  const auto measured = [](size_t) -> absl::StatusOr<std::vector<double>> {
    return std::vector<double>{1, 2};
  };
  const auto lost = absl::InternalError("lost");
  EXPECT_EQ(RepeatInRounds(
                absl::MakeSpan(&one, 1),
                [&](size_t) -> absl::StatusOr<std::vector<double>> { return lost; },
                []() -> absl::StatusOr<bool> { return false; }),
            lost);
  EXPECT_EQ(RepeatInRounds(absl::MakeSpan(&one, 1), measured,
                           [&]() -> absl::StatusOr<bool> { return lost; }),
            lost);
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
