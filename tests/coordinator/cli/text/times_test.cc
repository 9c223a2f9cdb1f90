// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/text/times.h"

#include <gtest/gtest.h>

#include <string>

namespace stretto::cli {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

TEST(ParsePastTest, TakesAgesAndTimes) {
  EXPECT_EQ(*ParsePast("90s", kNow), kNow - absl::Seconds(90));
  EXPECT_EQ(*ParsePast("1h30m", kNow), kNow - absl::Minutes(90));
  EXPECT_EQ(*ParsePast("2d", kNow), kNow - absl::Hours(48));
  EXPECT_EQ(*ParsePast("1d12h", kNow), kNow - absl::Hours(36));
  EXPECT_EQ(*ParsePast("0s", kNow), kNow);
  EXPECT_EQ(*ParsePast("2026-01-02T03:04:05Z", kNow), absl::FromUnixSeconds(1'767'323'045));
  EXPECT_EQ(*ParsePast("2026-01-02T04:04:05.5+01:00", kNow),
            absl::FromUnixSeconds(1'767'323'045) + absl::Milliseconds(500));
  EXPECT_EQ(*ParsePast(TimeText(ToTimestamp(kNow)), kNow), kNow);
}

TEST(ParsePastTest, RefusesEverythingElse) {
  for (const char* text : {"", "5", "-5m", "-1d", "inf", "yesterday", "d", "2026-13-02T03:04:05Z",
                           "99999999999d", "2d ago", "infinite-future"}) {
    EXPECT_FALSE(ParsePast(text, kNow).ok()) << text;
  }
}

TEST(ToTimestampTest, ComesBack) {
  const absl::Time time = kNow + absl::Nanoseconds(1'234'567);
  EXPECT_EQ(ToTime(ToTimestamp(time)), time);
}

}  // namespace
}  // namespace stretto::cli
