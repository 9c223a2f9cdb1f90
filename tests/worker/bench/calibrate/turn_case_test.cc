// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/calibrate/turn_case.h"

#include <vector>

#include "gtest/gtest.h"

namespace stretto::bench {
namespace {

TEST(TurnCaseTest, TheShortestProductOfAtLeastFiveMillisecondsReleasesBest) {
  EXPECT_TRUE(ReleasesBetter(6e-3, 0.4));
  EXPECT_FALSE(ReleasesBetter(0.4, 6e-3));
  EXPECT_TRUE(ReleasesBetter(0.4, 4e-3));
  EXPECT_FALSE(ReleasesBetter(4e-3, 0.4));
  EXPECT_TRUE(ReleasesBetter(4e-3, 1e-3));
  EXPECT_FALSE(ReleasesBetter(1e-3, 4e-3));
  EXPECT_FALSE(ReleasesBetter(6e-3, 6e-3));
}

// The data of rank 0 has arrived when rank 1 begins, so the call of rank 1 takes no time.
TEST(TurnCaseTest, ACallEndsWhenTheLastRankHasIt) {
  EXPECT_DOUBLE_EQ(
      FromLastRelease(std::vector<ReleasedCall>{{.group = 0, .released = 1, .ended = 6},
                                                {.group = 0, .released = 3, .ended = 3.25}}),
      3);
}

TEST(TurnCaseTest, GroupsAreApartAndOtherRanksDoNotCount) {
  EXPECT_DOUBLE_EQ(
      FromLastRelease(std::vector<ReleasedCall>{{.group = 0, .released = 1, .ended = 3},
                                                {.group = 2, .released = 10, .ended = 16},
                                                {.group = -1, .released = 0, .ended = 0},
                                                {.group = 0, .released = 1, .ended = 2}}),
      (2 + 6) / 2.0);
  EXPECT_EQ(FromLastRelease(std::vector<ReleasedCall>{{.group = -1, .released = 0, .ended = 0}}),
            0);
}

}  // namespace
}  // namespace stretto::bench
