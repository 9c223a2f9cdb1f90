// SPDX-License-Identifier: Apache-2.0
#include "proto/reporting/dropped_reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "stretto/v1alpha1/worker.pb.h"

namespace stretto {
namespace {

using testing::HasSubstr;
using v1alpha1::DroppedReports;
using v1alpha1::RankReport;

RankReport Numbered(int64_t sequence, int64_t dropped = 0) {
  RankReport report;
  report.set_sequence(sequence);
  if (dropped != 0) report.mutable_dropped()->set_reports(dropped);
  return report;
}

RankReport Step(int64_t sequence, double seconds) {
  RankReport report = Numbered(sequence);
  report.mutable_step()->mutable_ledger()->set_wall_seconds(seconds);
  return report;
}

TEST(DroppedReportsTest, NumbersAreChecked) {
  EXPECT_TRUE(CheckNumbers(Numbered(1)).ok());
  EXPECT_TRUE(CheckNumbers(Numbered(5, 4)).ok());
  EXPECT_TRUE(CheckNumbers(Numbered(kMaxReportNumber, kMaxReportNumber - 1)).ok());
  for (const RankReport& wrong :
       {Numbered(0), Numbered(-1), Numbered(5, 5), Numbered(5, -1), Numbered(kMaxReportNumber + 1),
        Numbered(INT64_MIN, INT64_MAX), Numbered(INT64_MAX, INT64_MIN)}) {
    EXPECT_EQ(CheckNumbers(wrong).code(), absl::StatusCode::kInvalidArgument)
        << wrong.ShortDebugString();
  }
  EXPECT_THAT(CheckNumbers(Numbered(9, 9), 100).ToString(),
              HasSubstr("found report 9 after 9 dropped ones, expected a number from 1 to 100"));
}

TEST(DroppedReportsTest, AReportCountsThoseBeforeItWithTheirSeconds) {
  DroppedReports dropped;
  Drop(Step(2, 1.5), &dropped);
  RankReport other = Numbered(6, 3);  // no step
  other.mutable_dropped()->mutable_ledger()->set_wall_seconds(10);
  Drop(other, &dropped);
  EXPECT_EQ(dropped.reports(), 5);
  RankReport next = Step(9, 100);
  next.mutable_dropped()->set_reports(2);
  next.mutable_dropped()->mutable_ledger()->set_wall_seconds(20);
  Precede(&dropped, &next);
  EXPECT_EQ(FirstNumber(next), 2);
  EXPECT_EQ(next.dropped().ledger().wall_seconds(), 31.5);
  EXPECT_EQ(next.step().ledger().wall_seconds(), 100);
  EXPECT_EQ(dropped.reports(), 0);
  Precede(&dropped, &other);  // nothing
  EXPECT_EQ(FirstNumber(other), 3);
}

TEST(DroppedReportsTest, WhatIsKnownIsNotCountedAgain) {
  const auto after = [](int64_t known) {
    RankReport report = Numbered(9, 4);
    report.mutable_dropped()->mutable_ledger()->set_wall_seconds(4);
    DropOnlyAfter(known, &report);
    return report;
  };
  EXPECT_EQ(FirstNumber(after(3)), 5);
  EXPECT_TRUE(after(4).dropped().has_ledger());
  EXPECT_EQ(FirstNumber(after(5)), 6);
  EXPECT_FALSE(after(5).dropped().has_ledger());
  EXPECT_FALSE(after(8).has_dropped());
}

}  // namespace
}  // namespace stretto
