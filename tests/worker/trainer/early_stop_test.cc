// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/early_stop.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace stretto::trainer {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

HeldOutState After(const EarlyStopRule& rule, std::initializer_list<double> losses) {
  HeldOutState state;
  for (double loss : losses) CountLoss(loss, rule, &state);
  return state;
}

TEST(EarlyStopTest, AFallingLossNeverStops) {
  const EarlyStopRule rule{.patience = 1};
  const HeldOutState state = After(rule, {3, 2.5, 2.25});
  EXPECT_EQ(state.best_loss, 2.25);
  EXPECT_EQ(state.without_better, 0);
  EXPECT_FALSE(StoppedImproving(state, rule));
}

TEST(EarlyStopTest, PatienceLossesInARowThatAreNotBetterStop) {
  const EarlyStopRule rule{.patience = 2};
  EXPECT_FALSE(StoppedImproving(After(rule, {3, 3}), rule));
  EXPECT_TRUE(StoppedImproving(After(rule, {3, 3, 4}), rule));
  EXPECT_FALSE(StoppedImproving(After(rule, {3, 3, 2.9, 3}), rule));
}

// Small gains are measured against the last loss that was better.
TEST(EarlyStopTest, BetterIsBelowTheLastBetterLossByMoreThanTheLeastImprovement) {
  const EarlyStopRule rule{.patience = 2, .min_improvement = 0.5};
  EXPECT_EQ(After(rule, {3, 2.5}).without_better, 1);
  const HeldOutState gained = After(rule, {3, 2.75, 2.25});
  EXPECT_EQ(gained.without_better, 0);
  EXPECT_EQ(gained.better_loss, 2.25);
  const HeldOutState close = After(rule, {3, 2.75, 2.5});
  EXPECT_EQ(close.without_better, 2);
  EXPECT_EQ(close.better_loss, 3);
  EXPECT_EQ(close.best_loss, 2.5);
  EXPECT_TRUE(StoppedImproving(close, rule));
}

TEST(EarlyStopTest, ALossThatIsNotANumberIsNotBetter) {
  const EarlyStopRule rule{.patience = 2};
  const HeldOutState state = After(rule, {std::nan(""), kInfinity});
  EXPECT_EQ(state.best_loss, kInfinity);
  EXPECT_TRUE(StoppedImproving(state, rule));
  EXPECT_EQ(After(rule, {std::nan(""), 2}).without_better, 0);
}

TEST(EarlyStopTest, WithoutPatienceNothingStops) {
  EXPECT_FALSE(StoppedImproving(After({}, {1, 2, 3, 4}), {}));
}

}  // namespace
}  // namespace stretto::trainer
