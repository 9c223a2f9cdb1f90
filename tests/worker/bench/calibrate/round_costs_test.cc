// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/calibrate/round_costs.h"

#include "gtest/gtest.h"
#include "worker/bench/calibrate/settle.h"

namespace stretto::bench {
namespace {

// Rounds of two measurements of which a step has 3 calls and 1, and one that does not count.
RoundCosts RoundsOf(const std::vector<std::vector<double>>& rounds) {
  RoundCosts found({3, 1, 0});
  for (const std::vector<double>& each : rounds) found.Add(each);
  return found;
}

TEST(RoundCostsTest, ACostIsTheMeanOfTheQuietRounds) {
  // Of 4, 4.3, 8, 4, 4 and 4.1 seconds.
  const RoundCosts rounds =
      RoundsOf({{1, 1, 1}, {1, 1.3, 9}, {2, 2, 1}, {1, 1, 2}, {1, 1, 3}, {1.02, 1.04, 5}});

  EXPECT_TRUE(rounds.settled());
  EXPECT_EQ(rounds.ExpectSettled(), absl::OkStatus());
  EXPECT_NEAR(rounds.CostOf(0).value, 1.004, 1e-12);
  EXPECT_NEAR(rounds.CostOf(0).spread, 0.02, 1e-12);
  EXPECT_NEAR(rounds.CostOf(1).value, 1.068, 1e-12);
  EXPECT_EQ(rounds.CostOf(1).spread, 0);  // they differ by 30 %
  EXPECT_NEAR(rounds.CostOf(2).value, 4, 1e-12);
}

TEST(RoundCostsTest, FiveRoundsMustBeQuiet) {
  RoundCosts rounds({1});
  EXPECT_FALSE(rounds.done());
  for (int i = 0; i < kSettledRounds; ++i) {
    EXPECT_FALSE(rounds.done());
    rounds.Add({i == 2 ? 1.2 : 1.0});
  }
  EXPECT_FALSE(rounds.done());
  EXPECT_EQ(rounds.ExpectSettled().message(),
            "computations: found 4 of 5 rounds at most 10 % longer than the fastest, expected 5; "
            "calibrate on an idle machine");
  rounds.Add({1.05});
  EXPECT_TRUE(rounds.done());
  EXPECT_TRUE(rounds.settled());
}

TEST(RoundCostsTest, TheyEndIfFewAreQuiet) {
  RoundCosts rounds({1});
  int count = 0;
  for (; !rounds.done(); ++count) rounds.Add({1 + 0.2 * count});

  EXPECT_EQ(count, 3 * kSettledRounds);
  EXPECT_FALSE(rounds.settled());
  EXPECT_TRUE(IsUnsettled(rounds.ExpectSettled()));
}

}  // namespace
}  // namespace stretto::bench
