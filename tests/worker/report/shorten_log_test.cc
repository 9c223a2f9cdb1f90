// SPDX-License-Identifier: Apache-2.0

// A log of reports at its bound: what it keeps, what it drops, and what those see who read it while
// it is replaced.

#include "worker/report/shorten_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "proto/reporting/dropped_reports.h"
#include "stretto/v1alpha1/worker.pb.h"
#include "tests/worker/test_files.h"
#include "worker/report/report_log.h"

namespace stretto {
namespace {

using testing::HasSubstr;
using v1alpha1::RankReport;

constexpr int64_t kBound = 16 << 10;

class ShortenLogTest : public testing::Test {
 protected:
  static RankReport Step(int64_t step) {
    RankReport report;
    report.mutable_step()->set_step(step);
    v1alpha1::Ledger& ledger = *report.mutable_step()->mutable_ledger();
    ledger.set_wall_seconds(1);
    ledger.set_steps(1);
    v1alpha1::Ledger::Entry& entry = *ledger.add_entries();
    entry.set_part(v1alpha1::Ledger::COMPUTE_ALONE);
    entry.set_seconds(0.5);
    return report;
  }
  static RankReport Evaluated(int64_t step) {
    RankReport report = Step(step);
    report.mutable_step()->mutable_evaluation()->set_loss(1);
    return report;
  }
  static RankReport Prepared() {
    RankReport report;
    report.mutable_prepared()->set_merged_wgrads(3);
    return report;
  }
  int64_t Size() const { return static_cast<int64_t>(std::filesystem::file_size(path_)); }
  // Appends steps first ... last.
  void AppendSteps(ReportLog& log, int64_t first, int64_t last,
                   const std::function<RankReport(int64_t)>& make = Step) {
    for (int64_t step = first; step <= last; ++step) {
      RankReport report = make(step);
      ASSERT_TRUE(log.Append(&report).ok());
    }
  }
  std::vector<RankReport> All() {
    const auto reports = ReadAfter(path_, 0);
    EXPECT_TRUE(reports.ok()) << reports.status();
    return reports.ok() ? *reports : std::vector<RankReport>{};
  }

  // What a coordinator that reads these knows: the number of the last one, of the steps, and of the
  // seconds of their ledgers.
  struct Sums {
    int64_t last = 0, steps = 0;
    double wall = 0;
  };
  static Sums Sum(const std::vector<RankReport>& reports) {
    Sums sums;
    for (const RankReport& report : reports) {
      EXPECT_EQ(FirstNumber(report), sums.last + 1);
      sums.last = report.sequence();
      sums.steps += report.dropped().ledger().steps() + report.has_step();
      sums.wall += report.dropped().ledger().wall_seconds() + report.step().ledger().wall_seconds();
    }
    return sums;
  }

  TestFolder folder_;
  std::string path_ = folder_ / "reports.log";
};

TEST_F(ShortenLogTest, AtItsBoundItDropsTheOlderStepsAndKeepsTheirSum) {
  ReportLog log = *ReportLog::Open(path_, kBound);
  RankReport prepared = Prepared();
  ASSERT_TRUE(log.Append(&prepared).ok());
  constexpr int64_t kSteps = 5000;
  for (int64_t step = 1; step <= kSteps; ++step) {
    RankReport report = step % 1000 == 0 ? Evaluated(step) : Step(step);
    ASSERT_TRUE(log.Append(&report).ok());
    ASSERT_LE(Size(), kBound + 100);
  }
  const std::vector<RankReport> all = All();
  EXPECT_LT(all.size(), 1000u);
  const Sums sums = Sum(all);
  EXPECT_EQ(sums.last, kSteps + 1);
  EXPECT_EQ(sums.steps, kSteps);
  EXPECT_EQ(sums.wall, kSteps);
  EXPECT_EQ(all[0].prepared().merged_wgrads(), 3);
  EXPECT_EQ(all[1].step().step(), 1);
  int evaluated = 0;
  for (const RankReport& report : all) evaluated += report.step().has_evaluation();
  EXPECT_EQ(evaluated, 5);
  // The newest half is there, step by step.
  for (size_t i = all.size() - 50; i < all.size(); ++i) EXPECT_FALSE(all[i].has_dropped());
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));

  // The writer of the next process continues it.
  log = *ReportLog::Open(path_, kBound);
  EXPECT_EQ(log.last_sequence(), kSteps + 1);
  AppendSteps(log, kSteps + 1, 2 * kSteps);
  EXPECT_EQ(Sum(All()).steps, 2 * kSteps);
}

TEST_F(ShortenLogTest, WhatIsRareIsDroppedToWhereThereIsMuchOfIt) {
  ReportLog log = *ReportLog::Open(path_, kBound);
  RankReport prepared = Prepared();
  ASSERT_TRUE(log.Append(&prepared).ok());
  for (int64_t step = 1; step <= 5000; ++step) {
    RankReport report = Evaluated(step);
    ASSERT_TRUE(log.Append(&report).ok());
    ASSERT_LE(Size(), kBound + 100);
  }
  EXPECT_EQ(Sum(All()).steps, 5000);
  EXPECT_TRUE(All()[0].has_prepared());
}

// A reader is somewhere in the old file when it is replaced, even more than once.
TEST_F(ShortenLogTest, AReaderOfTheFormerFileContinuesInTheNewOne) {
  for (const int64_t before : {0, 1, 40, 150, 151}) {
    std::filesystem::remove(path_);
    ReportLog log = *ReportLog::Open(path_, kBound);
    AppendSteps(log, 1, 151);
    ReportReader reader(path_);
    std::vector<RankReport> read;
    const auto read_new = [&](int64_t most) {
      const auto some = reader.ReadNew(most);
      ASSERT_TRUE(some.ok()) << some.status();
      read.insert(read.end(), some->begin(), some->end());
    };
    read_new(before);
    ASSERT_EQ(std::ssize(read), before);
    AppendSteps(log, 152, 2000);
    ASSERT_LT(Size(), kBound + 100);
    read_new(10'000);
    EXPECT_EQ(Sum(read).last, 2000) << before;
    EXPECT_TRUE(reader.damage().ok()) << reader.damage();
    AppendSteps(log, 2001, 2001);
    read_new(10'000);
    EXPECT_EQ(Sum(read).last, 2001) << before;
  }
}

TEST_F(ShortenLogTest, AFullDiskLeavesTheLogAsItIs) {
  ReportLog log = *ReportLog::Open(path_, kBound);
  AppendSteps(log, 1, 100);
  const std::string before = Slurp(path_);
  {
    FullDisk disk(200);
    const absl::Status status = ShortenLog(path_, Size(), Size()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_ + ".new"));
  }
  EXPECT_EQ(Slurp(path_), before);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
}

TEST_F(ShortenLogTest, WhatCannotBeShortenedGrowsOn) {
  path_ = folder_ / std::string(253, 'x');  // with ".new" it is longer than a name may be
  ReportLog log = *ReportLog::Open(path_, kBound);
  AppendSteps(log, 1, 1000);
  EXPECT_GT(Size(), kBound);
  EXPECT_EQ(All().size(), 1000u);
}

// What a process that was killed has left there.
TEST_F(ShortenLogTest, AnUnfinishedFileIsReplaced) {
  ReportLog log = *ReportLog::Open(path_, kBound);
  AppendSteps(log, 1, 100);
  Spill(path_ + ".new", std::string(100'000, 'x'));
  AppendSteps(log, 101, 1000);
  EXPECT_LE(Size(), kBound + 100);
  EXPECT_EQ(Sum(All()).steps, 1000);
}

}  // namespace
}  // namespace stretto
