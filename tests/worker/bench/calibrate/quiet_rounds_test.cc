// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/calibrate/quiet_rounds.h"

#include "gtest/gtest.h"
#include "worker/bench/calibrate/settle.h"

namespace stretto::bench {
namespace {

TEST(QuietRoundsTest, FiveRoundsMustBeQuiet) {
  int count = 0;
  const auto rounds = RepeatRounds([&]() -> absl::StatusOr<ComputationRound> {
    return ComputationRound{.seconds = {}, .step_seconds = ++count == 3 ? 1.2 : 1.05};
  });

  ASSERT_EQ(rounds.status(), absl::OkStatus());
  EXPECT_EQ(rounds->size(), 6u);
  EXPECT_EQ(CountQuiet(*rounds), 5u);
}

TEST(QuietRoundsTest, TheyEndIfFewAreQuiet) {
  int count = 0;
  const auto rounds = RepeatRounds([&]() -> absl::StatusOr<ComputationRound> {
    return ComputationRound{.seconds = {}, .step_seconds = 1 + 0.06 * count++};
  });

  EXPECT_EQ(count, 3 * kSettledRounds);
  EXPECT_TRUE(IsUnsettled(rounds.status()));
  EXPECT_EQ(rounds.status().message(),
            "computations: found 2 of 15 rounds at most 10 % longer than the fastest, expected 5; "
            "calibrate on an idle machine");
}

TEST(QuietRoundsTest, AnErrorEndsThem) {
  const auto rounds = RepeatRounds(
      []() -> absl::StatusOr<ComputationRound> { return absl::DataLossError("no more"); });

  EXPECT_EQ(rounds.status(), absl::DataLossError("no more"));
}

}  // namespace
}  // namespace stretto::bench
