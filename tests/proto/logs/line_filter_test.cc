// SPDX-License-Identifier: Apache-2.0
#include "proto/logs/line_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/time/time.h"

namespace stretto {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using v1alpha1::LogSelection;

constexpr char kLog[] =
    "before any time\n"
    "2026-01-02T03:04:04.999Z INFO  trainer: step 1\n"
    "2026-01-02T03:04:05.000Z WARN  trainer: slow\n"
    "  of the line before\n"
    "2026-01-02T03:04:06.000Z INFO  trainer: step 2\n"
    "no newline";

LineFilter Make(const LogSelection& selection) {
  absl::StatusOr<LineFilter> filter = LineFilter::Make(selection);
  EXPECT_TRUE(filter.ok()) << filter.status();
  return *std::move(filter);
}

std::string MessageOf(const LogSelection& selection) {
  return std::string(LineFilter::Make(selection).status().message());
}

LogSelection Since(absl::Time time) {
  LogSelection selection;
  selection.mutable_since()->set_seconds(absl::ToUnixSeconds(time));
  return selection;
}

const absl::Time kTime =
    absl::FromCivil(absl::CivilSecond(2026, 1, 2, 3, 4, 5), absl::UTCTimeZone());

TEST(LineFilterTest, NothingAskedForIsEverything) {
  EXPECT_EQ(LineFilter().Take(kLog), kLog);
  EXPECT_EQ(Make({}).Take(kLog), kLog);
}

TEST(LineFilterTest, LinesSinceATimeBeginWithTheFirstOfThem) {
  EXPECT_THAT(Make(Since(kTime)).Take(kLog), StartsWith("2026-01-02T03:04:05.000Z WARN"));
  EXPECT_THAT(Make(Since(kTime)).Take(kLog), HasSubstr("  of the line before\n"));
  EXPECT_THAT(Make(Since(kTime + absl::Seconds(1))).Take(kLog),
              StartsWith("2026-01-02T03:04:06.000Z INFO"));
  EXPECT_EQ(Make(Since(kTime + absl::Seconds(2))).Take(kLog), "");
  EXPECT_THAT(Make(Since(kTime - absl::Hours(1))).Take(kLog), StartsWith("2026-01-02T03:04:04"));
}

TEST(LineFilterTest, LinesThatMatchAreWhole) {
  LogSelection selection;
  selection.set_grep("WARN|step [2-9]");
  EXPECT_EQ(Make(selection).Take(kLog),
            "2026-01-02T03:04:05.000Z WARN  trainer: slow\n"
            "2026-01-02T03:04:06.000Z INFO  trainer: step 2\n");
  selection.set_grep("line$");
  EXPECT_EQ(Make(selection).Take(kLog), "no newline");
  selection.set_grep("(?i)STEP 1");
  EXPECT_THAT(Make(selection).Take(kLog), HasSubstr("step 1"));
}

TEST(LineFilterTest, BothSelectTogetherOverSeveralPieces) {
  LogSelection selection = Since(kTime);
  selection.set_grep("trainer");
  LineFilter filter = Make(selection);
  const std::string log = kLog;
  const size_t middle = log.find("2026-01-02T03:04:06");
  EXPECT_EQ(filter.Take(log.substr(0, middle)), "2026-01-02T03:04:05.000Z WARN  trainer: slow\n");
  EXPECT_EQ(filter.Take(log.substr(middle)), "2026-01-02T03:04:06.000Z INFO  trainer: step 2\n");
}

TEST(LineFilterTest, SelectionsAreBounded) {
  LogSelection selection;
  selection.set_grep("(");
  EXPECT_THAT(MessageOf(selection),
              StartsWith("grep: found \"(\", expected a regular expression of RE2: "));
  selection.set_grep(std::string(1'000, 'a'));
  EXPECT_TRUE(LineFilter::Make(selection).ok());
  selection.set_grep(std::string(1'001, 'a'));
  EXPECT_EQ(MessageOf(selection), "grep: found 1001 bytes, expected at most 1000");
  selection.set_grep("((a{100}){100}){100}");  // far more states than memory is given for
  EXPECT_THAT(MessageOf(selection), StartsWith("grep: found "));
  selection.clear_grep();
  selection.set_tail_lines(100'000);
  EXPECT_TRUE(LineFilter::Make(selection).ok());
  for (const int64_t lines : {-1, 100'001}) {
    selection.set_tail_lines(lines);
    EXPECT_THAT(MessageOf(selection), StartsWith("tail_lines: found "));
  }
}

}  // namespace
}  // namespace stretto
