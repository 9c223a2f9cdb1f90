// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/computations/round_costs.h"

#include "gtest/gtest.h"

namespace stretto::bench {
namespace {

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
