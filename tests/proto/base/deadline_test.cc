// SPDX-License-Identifier: Apache-2.0
#include "proto/base/deadline.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

// The wall clock goes back an hour whenever somebody looks at it.
class FallingClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch() - absl::Hours(++looks_); }
  absl::Duration Monotonic() const override { return fake_.Monotonic(); }
  void Advance(absl::Duration step) { fake_.Advance(step); }

 private:
  FakeClock fake_;
  mutable int looks_ = 0;
};

TEST(DeadlineTest, IsOverAfterItsTimeWhateverTheWallClockShows) {
  FallingClock clock;
  const Deadline deadline(absl::Seconds(2), clock);
  EXPECT_EQ(deadline.Left(), absl::Seconds(2));
  clock.Advance(absl::Milliseconds(1999));
  EXPECT_FALSE(deadline.over());
  EXPECT_EQ(deadline.Left(), absl::Milliseconds(1));
  clock.Advance(absl::Seconds(5));
  EXPECT_TRUE(deadline.over());
  EXPECT_EQ(deadline.Left(), absl::ZeroDuration());
}

TEST(DeadlineTest, AtMostIsTheEarlierOne) {
  FakeClock clock;
  const Deadline deadline(absl::Seconds(2), clock);
  EXPECT_EQ(deadline.AtMost(absl::Seconds(1)).Left(), absl::Seconds(1));
  clock.Advance(absl::Milliseconds(1500));
  EXPECT_EQ(deadline.AtMost(absl::Seconds(1)).Left(), absl::Milliseconds(500));
}

TEST(DeadlineTest, NeverEndsAfterAnInfiniteTime) {
  FakeClock clock;
  const Deadline deadline(absl::InfiniteDuration(), clock);
  clock.Advance(absl::Hours(100000));
  EXPECT_EQ(deadline.Left(), absl::InfiniteDuration());
}

}  // namespace
}  // namespace stretto
