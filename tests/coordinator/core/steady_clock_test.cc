// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/steady_clock.h"

#include <gtest/gtest.h>

namespace stretto::coordinator {
namespace {

absl::Duration S(double seconds) { return absl::Seconds(seconds); }

TEST(SteadyClockTest, ShowsMonotonicTimeWhileTicksComeInTime) {
  SteadyClock clock(S(1));
  EXPECT_EQ(clock.At(S(500)), S(0));
  EXPECT_EQ(clock.At(S(500.4)), S(0.4));
  EXPECT_TRUE(clock.Tick(S(500.5)));
  EXPECT_TRUE(clock.Tick(S(501.5)));
  EXPECT_EQ(clock.At(S(501.7)), S(1.7));
}

TEST(SteadyClockTest, LeavesOutAPauseAndDecidesNothingInTheRoundAfterIt) {
  SteadyClock clock(S(1));
  clock.Tick(S(0));
  EXPECT_EQ(clock.At(S(40)), S(1));  // an event that is taken up before the late tick
  EXPECT_FALSE(clock.Tick(S(40)));
  EXPECT_EQ(clock.At(S(40)), S(1));
  EXPECT_TRUE(clock.Tick(S(40.5)));
  EXPECT_EQ(clock.At(S(40.5)), S(1.5));
}

TEST(SteadyClockTest, DecidesInEverySecondRoundIfAllAreLate) {
  SteadyClock clock(S(1));
  clock.Tick(S(0));
  EXPECT_FALSE(clock.Tick(S(5)));
  EXPECT_TRUE(clock.Tick(S(10)));
  EXPECT_FALSE(clock.Tick(S(15)));
  EXPECT_EQ(clock.At(S(15)), S(3));
}

TEST(SteadyClockTest, StandsStillBetweenStopAndContinue) {
  SteadyClock clock(S(1));
  clock.Tick(S(0));
  clock.Stop(S(0.3));
  EXPECT_EQ(clock.At(S(0.8)), S(0.3));
  EXPECT_TRUE(clock.stopped());
  clock.Tick(S(0.9));
  clock.Continue(S(45));
  EXPECT_EQ(clock.At(S(45.2)), S(0.5));
}

}  // namespace
}  // namespace stretto::coordinator
