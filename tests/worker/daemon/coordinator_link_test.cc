// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/coordinator_link.h"

#include <gtest/gtest.h>

namespace stretto::daemon {
namespace {

TEST(ReconnectPauseTest, DoublesUpToFiveSecondsWithTwentyPercentJitter) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    absl::Duration middle = absl::Milliseconds(200);
    for (int attempt = 0; attempt < 40; ++attempt) {
      const absl::Duration pause = ReconnectPause(seed, attempt);
      EXPECT_GE(pause, middle * 0.8);
      EXPECT_LE(pause, middle * 1.2);
      middle = std::min(middle * 2, absl::Seconds(5));
    }
  }
}

TEST(ReconnectPauseTest, WorkersDoNotComeBackTogether) {
  EXPECT_NE(ReconnectPause(1, 3), ReconnectPause(2, 3));
  EXPECT_EQ(ReconnectPause(1, 3), ReconnectPause(1, 3));
}

}  // namespace
}  // namespace stretto::daemon
