// SPDX-License-Identifier: Apache-2.0
#include "proto/base/progress_line.h"

#include "gtest/gtest.h"
#include "proto/base/units.h"

namespace stretto {
namespace {

TEST(ProgressTextTest, HasTheRateAndTheTimeLeft) {
  EXPECT_EQ(ProgressText(4 * kMiB, 10 * kMiB, 0, absl::Seconds(2)),
            "4.0 MiB of 10.0 MiB  2.0 MiB/s  3.0s left");
}

TEST(ProgressTextTest, BytesOfAnEarlierRunDoNotCountForTheRate) {
  EXPECT_EQ(ProgressText(4 * kMiB, 10 * kMiB, 3 * kMiB, absl::Seconds(1)),
            "4.0 MiB of 10.0 MiB  1.0 MiB/s  6.0s left");
}

TEST(ProgressTextTest, WithoutARateThereIsNoTimeLeft) {
  EXPECT_EQ(ProgressText(3 * kMiB, 10 * kMiB, 3 * kMiB, absl::Seconds(1)), "3.0 MiB of 10.0 MiB");
  EXPECT_EQ(ProgressText(0, 0, 0, absl::ZeroDuration()), "0 B of 0 B");
}

}  // namespace
}  // namespace stretto
