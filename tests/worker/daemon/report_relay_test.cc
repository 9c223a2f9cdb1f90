// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/report_relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "proto/reporting/dropped_reports.h"
#include "tests/worker/daemon/temp_dir.h"
#include "worker/report/report_log.h"

namespace stretto::daemon {
namespace {

using stretto::v1alpha1::Assign;
using ::testing::ElementsAre;
using Report = ReportRelay::Report;

const RankKey kKey{"0123456789abcdef", 1, 0};

class ReportRelayTest : public ::testing::Test {
 protected:
  ReportRelayTest() {
    Assign assign;
    assign.set_job_id("gpt");
    assign.set_job_uid(kKey.job_uid);
    assign.set_epoch(1);
    assign.add_ranks();
    folder_ = *RunFolders(dir_.path()).Create(assign, 0);
  }

  // What the trainer does: into the log first; the result is what it would stream.
  Report Write(bool exit = false) {
    Report report;
    report.set_job_id("gpt");
    report.set_job_uid(kKey.job_uid);
    report.set_epoch(1);
    if (exit) {
      report.mutable_exit()->set_reason("Completed");
    } else {
      report.mutable_step();
    }
    ReportLog log = *ReportLog::Open(folder_.reports());
    EXPECT_TRUE(log.Append(&report).ok());
    return report;
  }

  std::vector<int64_t> Drain() {
    std::vector<int64_t> sequences;
    while (std::optional<Report> report = relay_.Next()) sequences.push_back(report->sequence());
    return sequences;
  }

  TempDir dir_;
  RunFolder folder_{""};
  std::vector<int64_t> observed_;
  int wakes_ = 0;
  ReportRelay relay_{[this](const Report& report) { observed_.push_back(report.sequence()); },
                     [this] { ++wakes_; }};
};

TEST_F(ReportRelayTest, LiveReportsPassInOrder) {
  relay_.Add(kKey, "gpt", 0, folder_);
  EXPECT_TRUE(relay_.Live(Write()));
  EXPECT_TRUE(relay_.Live(Write()));
  EXPECT_THAT(Drain(), ElementsAre(1, 2));
  EXPECT_THAT(observed_, ElementsAre(1, 2));
}

TEST_F(ReportRelayTest, WhatTheStreamSkippedIsReadFromTheLogOnce) {
  relay_.Add(kKey, "gpt", 0, folder_);
  Write();
  const Report second = Write();
  EXPECT_FALSE(relay_.Live(second));
  EXPECT_THAT(Drain(), ElementsAre());
  relay_.CatchUp(kKey);
  EXPECT_TRUE(relay_.Live(second));
  EXPECT_TRUE(relay_.Live(Write()));
  relay_.CatchUp(kKey);
  EXPECT_THAT(Drain(), ElementsAre(1, 2, 3));
  EXPECT_THAT(observed_, ElementsAre(1, 2, 3));
}

TEST_F(ReportRelayTest, LiveReportsThatNoLogHasAreKeptUntilAcknowledged) {
  relay_.Add(kKey, "gpt", 0, folder_);
  Report report = Write();
  EXPECT_TRUE(relay_.Live(report));
  relay_.Pause();
  for (int i = 2; i <= 200; ++i) {  // the disk is full: nothing more in the log
    report.set_sequence(i);
    EXPECT_TRUE(relay_.Live(report));
  }
  ASSERT_TRUE(relay_.Rewind(kKey, 1));
  EXPECT_EQ(Drain().size(), 199u);
}

TEST_F(ReportRelayTest, AReconnectReplaysFromTheAcknowledgedOne) {
  for (int i = 0; i < 1000; ++i) Write();  // more than is kept in memory or read at a time
  relay_.Add(kKey, "gpt", 0, folder_);
  EXPECT_EQ(Drain().size(), 1000u);
  relay_.Pause();
  EXPECT_TRUE(relay_.Live(Write()));
  EXPECT_THAT(Drain(), ElementsAre());
  ASSERT_TRUE(relay_.Rewind(kKey, 3));
  const std::vector<int64_t> again = Drain();
  ASSERT_EQ(again.size(), 998u);
  for (size_t i = 0; i < again.size(); ++i) ASSERT_EQ(again[i], static_cast<int64_t>(i) + 4);
  EXPECT_EQ(observed_.size(), 1001u);
}

// A flipped bit in the middle of the log, and a coordinator that asks for everything again.
TEST_F(ReportRelayTest, ADamagedLogIsSaidAndTheExitIsSent) {
  for (int i = 0; i < 300; ++i) Write();
  Write(/*exit=*/true);
  relay_.Add(kKey, "gpt", 0, folder_);
  relay_.End(kKey, false);
  EXPECT_EQ(Drain().size(), 301u);
  std::string bytes = *ReadFile(folder_.reports());
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  ASSERT_TRUE(WriteFileAtomic(folder_.reports(), bytes).ok());

  relay_.Pause();
  ASSERT_TRUE(relay_.Rewind(kKey, 0));
  int64_t expected = 1, warnings = 0;
  bool ended = false;
  while (std::optional<Report> report = relay_.Next()) {
    EXPECT_EQ(report->sequence(), expected++);
    ended |= report->has_exit();
    if (!report->has_warning()) continue;
    ++warnings;
    EXPECT_EQ(report->warning().condition(), "LogIntact");
    EXPECT_EQ(report->job_uid(), kKey.job_uid);
  }
  EXPECT_EQ(expected, 302);
  EXPECT_EQ(warnings, 1);
  EXPECT_TRUE(ended);
}

TEST_F(ReportRelayTest, WhatTheLogOfAnEndedRankDoesNotHaveIsSaidToBeLost) {
  for (int i = 0; i < 300; ++i) Write();
  Write(/*exit=*/true);
  relay_.Add(kKey, "gpt", 0, folder_);
  std::filesystem::remove(folder_.reports());
  relay_.Pause();
  ASSERT_TRUE(relay_.Rewind(kKey, 0));
  EXPECT_THAT(Drain(), ElementsAre());  // the log may come back while the trainer lives
  relay_.End(kKey, false);
  const std::optional<Report> first = relay_.Next();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->warning().reason(), "LogLost");
  EXPECT_EQ(FirstNumber(*first), 1);
  const std::vector<int64_t> kept = Drain();  // in memory
  ASSERT_EQ(kept.size(), 64u);
  EXPECT_EQ(kept.front(), first->sequence() + 1);
  EXPECT_EQ(kept.back(), 301);
}

// A long job, and a coordinator that starts again: every step is counted, not each is there.
TEST_F(ReportRelayTest, ALogAtItsBoundIsSentToTheNextCoordinator) {
  relay_.Add(kKey, "gpt", 0, folder_);
  constexpr int64_t kSteps = 2000;
  ReportLog log = *ReportLog::Open(folder_.reports(), /*max_bytes=*/8192);
  for (int64_t step = 1; step <= kSteps; ++step) {
    Report report;
    report.set_job_uid(kKey.job_uid);
    report.set_epoch(1);
    report.mutable_step()->set_step(step);
    report.mutable_step()->mutable_ledger()->set_wall_seconds(1);
    ASSERT_TRUE(log.Append(&report).ok());
    if (step % 100 == 0) continue;  // its stream breaks now and then
    if (!relay_.Live(report)) relay_.CatchUp(kKey);
    if (step % 7 == 0) Drain();
  }
  relay_.CatchUp(kKey);
  Drain();
  EXPECT_EQ(observed_.back(), kSteps);
  for (const int64_t acked : {int64_t{0}, int64_t{777}, kSteps - 1}) {
    relay_.Pause();
    ASSERT_TRUE(relay_.Rewind(kKey, acked));
    int64_t known = acked, sent = 0;
    double seconds = 0;
    while (std::optional<Report> report = relay_.Next()) {
      EXPECT_EQ(FirstNumber(*report), known + 1);
      known = report->sequence();
      seconds += report->dropped().ledger().wall_seconds() + report->step().ledger().wall_seconds();
      ++sent;
    }
    EXPECT_EQ(known, kSteps) << acked;
    EXPECT_LT(sent, 300) << acked;
    // Of some of those that one report counts this coordinator knows: there is no sum of the
    // others.
    if (acked == 777) continue;
    EXPECT_EQ(seconds, static_cast<double>(kSteps - acked));
  }
}

TEST_F(ReportRelayTest, AnExitLeavesOnlyWhenTheProcessIsReaped) {
  relay_.Add(kKey, "gpt", 0, folder_);
  relay_.Live(Write());
  relay_.Live(Write(/*exit=*/true));
  EXPECT_THAT(Drain(), ElementsAre(1));
  relay_.End(kKey, /*stopped=*/true);
  const std::optional<Report> exit = relay_.Next();
  ASSERT_TRUE(exit.has_value());
  EXPECT_TRUE(exit->exit().stopped_by_daemon());
  EXPECT_EQ(exit->exit().reason(), "Completed");
}

TEST_F(ReportRelayTest, AnEndedRankIsDoneOnceEverythingIsAcknowledged) {
  relay_.Add(kKey, "gpt", 4, folder_);
  relay_.Live(Write());
  relay_.Live(Write(/*exit=*/true));
  relay_.End(kKey, false);
  relay_.Acked(kKey, 1);
  EXPECT_FALSE(folder_.Done());
  ASSERT_EQ(relay_.Held().size(), 1u);
  EXPECT_FALSE(relay_.Held()[0].alive());
  EXPECT_EQ(relay_.Held()[0].last_sequence(), 2);
  EXPECT_EQ(relay_.Held()[0].slot(), 4);
  EXPECT_FALSE(relay_.Idle());
  relay_.Acked(kKey, 2);
  EXPECT_TRUE(folder_.Done());
  EXPECT_TRUE(relay_.Held().empty());
  EXPECT_TRUE(relay_.Idle());
}

TEST_F(ReportRelayTest, TheDaemonsOwnReportContinuesTheLog) {
  relay_.Add(kKey, "gpt", 0, folder_);
  relay_.Live(Write());
  Report exit;
  exit.mutable_exit()->set_signal(9);
  relay_.Append(kKey, exit);
  const std::vector<Report> stored = *ReadAfter(folder_.reports(), 1);
  ASSERT_EQ(stored.size(), 1u);
  EXPECT_EQ(stored[0].sequence(), 2);
  EXPECT_EQ(stored[0].job_id(), "gpt");
  EXPECT_EQ(relay_.Exit(kKey)->signal(), 9);
}

TEST_F(ReportRelayTest, AReportThatCannotBeWrittenIsSentFromMemory) {
  const RunFolder missing(dir_.path() + "/gone");
  relay_.Add(kKey, "gpt", 0, missing);
  Report exit;
  exit.mutable_exit()->set_signal(9);
  relay_.Append(kKey, exit);
  relay_.End(kKey, false);
  EXPECT_THAT(Drain(), ElementsAre(1));
  relay_.Rewind(kKey, 0);
  EXPECT_THAT(Drain(), ElementsAre(1));
}

// The trainer starts nevertheless, and its first report has number 1.
TEST_F(ReportRelayTest, AWarningThatCannotBeWrittenTakesNoNumber) {
  relay_.Add(kKey, "gpt", 0, RunFolder(dir_.path() + "/gone"));
  Report warning;
  warning.mutable_warning()->set_condition("LogIntact");
  relay_.Append(kKey, warning);
  EXPECT_THAT(Drain(), ElementsAre());
  EXPECT_TRUE(relay_.Live(Write()));
  EXPECT_THAT(Drain(), ElementsAre(1));
}

TEST_F(ReportRelayTest, ADroppedRankIsForgottenAndTheObserverToldOfItsEnd) {
  relay_.Add(kKey, "gpt", 0, folder_);
  relay_.Live(Write());
  relay_.Drop(kKey);
  EXPECT_TRUE(relay_.Held().empty());
  EXPECT_TRUE(folder_.Done());
  EXPECT_EQ(observed_.size(), 2u);
  EXPECT_TRUE(relay_.Live(Write()));  // ignored
  EXPECT_EQ(observed_.size(), 2u);
}

}  // namespace
}  // namespace stretto::daemon
