// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/computations/round_costs.h"

#include "gtest/gtest.h"

namespace stretto::bench {
namespace {

TEST(RoundCostsTest, ARoundIsThatOfTheRankThatTakesLongest) {
  // 3 x 1 + 2 and 3 x 2 + 1 seconds of a step.
  const ComputationRound round = RoundOf({{1, 2}, {2, 1}}, {3, 1});

  EXPECT_EQ(round.seconds, (std::vector<double>{2, 1}));
  EXPECT_EQ(round.step_seconds, 7);
}

TEST(RoundCostsTest, WhatTheSlowestRankLacksIsOfTheOthers) {
  const ComputationRound round = RoundOf({{0, 2, 1}, {4, 1, 0}, {0, 0, 3}}, {1, 1, 1});

  EXPECT_EQ(round.seconds, (std::vector<double>{4, 1, 3}));
  EXPECT_EQ(round.step_seconds, 8);
}

TEST(RoundCostsTest, ACostIsTheMeanOfTheQuietRounds) {
  // Of two computations of which a step has 3 calls and 1, and one that does not count.
  const std::vector<ComputationRound> rounds = {{{1, 1, 1}, 4}, {{1, 1.3, 9}, 4.3},
                                                {{2, 2, 1}, 8}, {{1, 1, 2}, 4},
                                                {{1, 1, 3}, 4}, {{1.02, 1.04, 5}, 4.1}};

  EXPECT_EQ(CountQuiet(rounds), 5u);
  EXPECT_NEAR(CostOf(rounds, 0).value, 1.004, 1e-12);
  EXPECT_NEAR(CostOf(rounds, 0).spread, 0.02, 1e-12);
  EXPECT_NEAR(CostOf(rounds, 1).value, 1.068, 1e-12);
  EXPECT_EQ(CostOf(rounds, 1).spread, 0);  // they differ by 30 %
  EXPECT_NEAR(CostOf(rounds, 2).value, 4, 1e-12);
}

TEST(RoundCostsTest, NoRoundIsQuietWithoutAny) { EXPECT_EQ(CountQuiet({}), 0u); }

}  // namespace
}  // namespace stretto::bench
