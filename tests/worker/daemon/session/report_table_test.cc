// SPDX-License-Identifier: Apache-2.0

// The rules of ReportTable. ReportRelayTest has them with real logs.

#include "worker/daemon/session/report_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/reporting/dropped_reports.h"

namespace stretto::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Report = ReportTable::Report;
using Arrival = ReportTable::Arrival;

const RankKey kKey{"a", 1, 0}, kOther{"b", 1, 0};

class ReportTableTest : public ::testing::Test {
 protected:
  static Report Step(int64_t sequence, const RankKey& key = kKey) {
    Report report;
    report.set_job_uid(key.job_uid);
    report.set_epoch(key.epoch);
    report.set_rank(key.rank);
    report.set_sequence(sequence);
    report.mutable_step();
    return report;
  }
  static Report Exit(int64_t sequence, const RankKey& key = kKey) {
    Report report = Step(sequence, key);
    report.mutable_exit()->set_reason("Completed");
    return report;
  }
  // `first` to `last` are in the log.
  static std::vector<Report> Log(int64_t first, int64_t last) {
    std::vector<Report> reports;
    for (int64_t i = first; i <= last; ++i) reports.push_back(Step(i));
    return reports;
  }
  // Sends all that is in memory.
  std::vector<int64_t> Drain() {
    std::vector<int64_t> sent;
    while (true) {
      const ReportTable::Turn turn = table_.Next({});
      if (!turn.report.has_value()) return sent;
      sent.push_back(turn.report->sequence());
    }
  }

  std::vector<int64_t> observed_;
  ReportTable table_{[this](const Report& report) { observed_.push_back(report.sequence()); },
                     {.recent = 2, .most = 4}};
};

TEST_F(ReportTableTest, OnlyTheNextReportOfAStreamIsTaken) {
  EXPECT_EQ(table_.Live(Step(1)), Arrival::kIgnored);  // nobody's
  EXPECT_TRUE(table_.Add(kKey, "job", 0, "log"));
  EXPECT_FALSE(table_.Add(kKey, "job", 0, "log"));
  EXPECT_EQ(table_.Live(Step(1)), Arrival::kTaken);
  EXPECT_EQ(table_.Live(Step(1)), Arrival::kIgnored);
  EXPECT_EQ(table_.Live(Step(3)), Arrival::kGap);
  table_.Logged(kKey, Log(1, 3));
  EXPECT_THAT(observed_, ElementsAre(1, 2, 3));
}

TEST_F(ReportTableTest, WhatMemoryDoesNotHaveIsReadFromTheLog) {
  table_.Add(kKey, "job", 0, "log");
  table_.Logged(kKey, Log(1, 5));  // memory has 4 and 5
  ReportTable::Turn turn = table_.Next({});
  ASSERT_TRUE(turn.read.has_value());
  EXPECT_EQ(*turn.read, kKey);
  EXPECT_EQ(turn.sequence, 1);
  table_.Fetched(kKey, Log(1, 2));
  EXPECT_THAT(Drain(), ElementsAre(1, 2));
  turn = table_.Next({});
  EXPECT_EQ(turn.sequence, 3);
  table_.Fetched(kKey, Log(3, 4));
  EXPECT_THAT(Drain(), ElementsAre(3, 4, 5));
}

TEST_F(ReportTableTest, WhatTheLogOfALiveRankMissesIsWaitedForAndOfAnEndedOneLost) {
  table_.Add(kKey, "job", 0, "log");
  table_.Logged(kKey, Log(1, 4));
  table_.Live(Exit(5));
  table_.Add(kOther, "job", 0, "log");
  table_.Live(Step(1, kOther));
  ReportTable::Turn turn = table_.Next({{kKey, 1}});
  ASSERT_TRUE(turn.report.has_value());  // others do not wait
  EXPECT_EQ(turn.report->job_uid(), "b");
  turn = table_.Next({{kKey, 1}});
  EXPECT_FALSE(turn.report.has_value());
  EXPECT_FALSE(turn.read.has_value());
  table_.End(kKey, /*stopped=*/true);
  turn = table_.Next({{kKey, 1}});
  ASSERT_TRUE(turn.report.has_value());
  EXPECT_EQ(turn.report->warning().reason(), "LogLost");
  EXPECT_EQ(turn.report->warning().message(), "log: reports are not there any more");
  EXPECT_EQ(FirstNumber(*turn.report), 1);  // and those up to what memory has
  EXPECT_EQ(turn.report->sequence(), 2);
  EXPECT_THAT(Drain(), ElementsAre(3, 4, 5));
}

// As above, with much that is lost: one report counts it, whatever its trainer made of its numbers.
TEST_F(ReportTableTest, OneWarningCountsAllThatIsLost) {
  table_.Add(kKey, "job", 0, "log");
  Report far = Step(kMaxTrainerNumber);
  far.mutable_dropped()->set_reports(kMaxTrainerNumber - 1);
  table_.Logged(kKey, {far, Step(kMaxTrainerNumber + 1), Exit(kMaxTrainerNumber + 2)});
  table_.End(kKey, /*stopped=*/false);
  const ReportTable::Turn turn = table_.Next({{kKey, 1}});  // memory has the last two
  ASSERT_TRUE(turn.report.has_value());
  EXPECT_EQ(turn.report->warning().reason(), "LogLost");
  EXPECT_EQ(FirstNumber(*turn.report), 1);
  EXPECT_EQ(turn.report->sequence(), kMaxTrainerNumber);
  EXPECT_THAT(Drain(), ElementsAre(kMaxTrainerNumber + 1, kMaxTrainerNumber + 2));
}

TEST_F(ReportTableTest, WhatALogHasDroppedIsSentWithTheReportThatCountsIt) {
  table_.Add(kKey, "job", 0, "log");
  Report counts = Step(40);
  counts.mutable_dropped()->set_reports(38);
  counts.mutable_dropped()->mutable_ledger()->set_wall_seconds(38);
  table_.Logged(kKey, {Step(1), counts, Step(41), Step(42), Step(43)});
  EXPECT_THAT(observed_, ElementsAre(1, 40, 41, 42, 43));
  ASSERT_EQ(table_.Next({}).sequence, 1);
  table_.Fetched(kKey, {Step(1), counts, Step(41)});
  EXPECT_EQ(table_.Next({}).report->sequence(), 1);
  ReportTable::Turn turn = table_.Next({});
  EXPECT_EQ(turn.report->sequence(), 40);
  EXPECT_EQ(turn.report->dropped().reports(), 38);
  EXPECT_EQ(turn.report->dropped().ledger().wall_seconds(), 38);
  EXPECT_THAT(Drain(), ElementsAre(41, 42, 43));

  // Of some, the coordinator knows already.
  table_.Pause();
  ASSERT_TRUE(table_.Rewind(kKey, 30));
  ASSERT_EQ(table_.Next({}).sequence, 31);
  table_.Fetched(kKey, {Step(1), counts, Step(41)});
  turn = table_.Next({});
  EXPECT_EQ(turn.report->sequence(), 40);
  EXPECT_EQ(turn.report->dropped().reports(), 9);
  EXPECT_FALSE(turn.report->dropped().has_ledger());
  EXPECT_THAT(Drain(), ElementsAre(41, 42, 43));
}

TEST_F(ReportTableTest, OnlyALogDropsReports) {
  table_.Add(kKey, "job", 0, "log");
  Report report = Step(9);
  report.mutable_dropped()->set_reports(8);
  EXPECT_EQ(table_.Live(report), Arrival::kGap);
  report = Step(1);
  report.mutable_dropped();
  EXPECT_EQ(table_.Live(report), Arrival::kGap);
  table_.Logged(kKey, Log(1, 5));
  report = Step(8);
  report.mutable_dropped()->set_reports(4);  // 4 and 5 are known
  table_.Logged(kKey, {report});
  EXPECT_THAT(observed_, ElementsAre(1, 2, 3, 4, 5, 8));
}

TEST_F(ReportTableTest, RanksTakeTurns) {
  table_.Add(kKey, "job", 0, "log");
  table_.Add(kOther, "job", 0, "log");
  for (int64_t i = 1; i <= 2; ++i) {
    table_.Live(Step(i));
    table_.Live(Step(i, kOther));
  }
  std::vector<std::string> turns;
  for (int i = 0; i < 4; ++i) turns.push_back(table_.Next({}).report->job_uid());
  EXPECT_THAT(turns, ElementsAre("a", "b", "a", "b"));
}

TEST_F(ReportTableTest, ANewSessionBeginsAfterWhatIsAcknowledged) {
  table_.Add(kKey, "job", 0, "log");
  for (int64_t i = 1; i <= 4; ++i) table_.Live(Step(i));
  EXPECT_THAT(Drain(), ElementsAre(1, 2, 3, 4));
  table_.Pause();
  EXPECT_TRUE(table_.Rewind(kKey, 2));
  EXPECT_THAT(Drain(), ElementsAre(3, 4));
  table_.Pause();
  table_.Live(Step(5));
  EXPECT_THAT(Drain(), IsEmpty());
  EXPECT_FALSE(table_.Rewind(kOther, 0));
}

TEST_F(ReportTableTest, AnExitIsSentOnceTheProcessIsGone) {
  table_.Add(kKey, "job", 0, "log");
  table_.Live(Exit(1));
  EXPECT_THAT(Drain(), IsEmpty());
  table_.End(kKey, /*stopped=*/true);
  const ReportTable::Turn turn = table_.Next({});
  ASSERT_TRUE(turn.report.has_value());
  EXPECT_TRUE(turn.report->exit().stopped_by_daemon());
}

TEST_F(ReportTableTest, ARankIsDoneWhenItHasEndedAndItsLastReportIsAcknowledged) {
  table_.Add(kKey, "job", 3, "log");
  table_.Live(Step(1));
  table_.Live(Exit(2));
  EXPECT_FALSE(table_.Acked(kKey, 2));
  EXPECT_TRUE(table_.Idle());
  EXPECT_TRUE(table_.Held()[0].alive());
  table_.End(kKey, false);
  EXPECT_FALSE(table_.Held()[0].alive());
  EXPECT_EQ(table_.Held()[0].last_sequence(), 2);
  EXPECT_EQ(table_.Held()[0].slot(), 3);
  EXPECT_TRUE(table_.Acked(kKey, 1));  // the newest counts
  EXPECT_THAT(table_.Held(), IsEmpty());
  EXPECT_FALSE(table_.Acked(kKey, 2));
}

TEST_F(ReportTableTest, NumbersThatNoCoordinatorHasAreNotTaken) {
  table_.Add(kKey, "job", 0, "log");
  table_.Logged(kKey, Log(1, 2));
  ASSERT_TRUE(table_.Rewind(kKey, -5));
  EXPECT_EQ(table_.Next({}).report->sequence(), 1);
  ASSERT_TRUE(table_.Rewind(kKey, INT64_MAX));
  const std::optional<Report> death = table_.Numbered(kKey, Exit(0));
  ASSERT_TRUE(death.has_value());
  EXPECT_TRUE(CheckNumbers(*death).ok()) << death->sequence();
}

// The disk was full, and the daemon that had these reports in memory is gone.
TEST_F(ReportTableTest, NumbersContinueWhereTheCoordinatorIs) {
  table_.Add(kKey, "job", 0, "log");
  table_.Logged(kKey, Log(1, 3));
  table_.Pause();
  ASSERT_TRUE(table_.Rewind(kKey, 7));
  EXPECT_FALSE(table_.Acked(kKey, 7));
  EXPECT_EQ(table_.Live(Step(7)), Arrival::kIgnored);
  EXPECT_EQ(table_.Live(Step(9)), Arrival::kGap);  // 8 may still come
  const std::optional<Report> death = table_.Numbered(kKey, Exit(0));
  ASSERT_TRUE(death.has_value());
  EXPECT_EQ(death->sequence(), 8);
  EXPECT_TRUE(table_.Own(kKey, *death, /*logged=*/false));
  table_.End(kKey, false);
  EXPECT_THAT(Drain(), ElementsAre(8));
}

// As above, and the rank ends between our registration and its answer.
TEST_F(ReportTableTest, ADeathDuringARegistrationRepeatsNoNumber) {
  table_.Add(kKey, "job", 0, "log");
  table_.Logged(kKey, Log(1, 1));
  table_.Pause();
  ASSERT_TRUE(table_.Held()[0].alive());
  const std::optional<Report> death = table_.Numbered(kKey, Exit(0));
  ASSERT_TRUE(death.has_value());
  EXPECT_EQ(death->sequence(), 2);
  EXPECT_TRUE(table_.Own(kKey, *death, /*logged=*/true));
  table_.End(kKey, false);
  ASSERT_TRUE(table_.Rewind(kKey, 2));
  EXPECT_FALSE(table_.Acked(kKey, 2));
  const ReportTable::Turn turn = table_.Next({});
  ASSERT_TRUE(turn.report.has_value());
  EXPECT_EQ(turn.report->sequence(), 3);
  EXPECT_TRUE(turn.report->has_exit());
  EXPECT_TRUE(table_.Acked(kKey, 3));
}

TEST_F(ReportTableTest, ADeathThatWasAcknowledgedIsNotReportedAgain) {
  table_.Add(kKey, "job", 0, "log");
  table_.Logged(kKey, {Step(1), Exit(2)});
  table_.End(kKey, false);
  table_.Pause();
  ASSERT_FALSE(table_.Held()[0].alive());
  ASSERT_TRUE(table_.Rewind(kKey, 2));
  EXPECT_TRUE(table_.Acked(kKey, 2));
}

TEST_F(ReportTableTest, OfReportsOfTheDaemonThatNoLogHasOnlyAnExitIsTaken) {
  table_.Add(kKey, "job", 0, "log");
  Report warning;
  warning.mutable_warning()->set_condition("LogIntact");
  const std::optional<Report> numbered = table_.Numbered(kKey, warning);
  ASSERT_TRUE(numbered.has_value());
  EXPECT_EQ(numbered->job_id(), "job");
  EXPECT_EQ(numbered->job_uid(), "a");
  EXPECT_FALSE(table_.Own(kKey, *numbered, /*logged=*/false));
  EXPECT_EQ(table_.Live(Step(1)), Arrival::kTaken);  // the trainer's first
  EXPECT_TRUE(table_.Own(kKey, *table_.Numbered(kKey, warning), /*logged=*/true));
  EXPECT_FALSE(table_.Numbered(kOther, warning).has_value());
}

// A trainer writes its log and its stream, and may have written anything.
TEST_F(ReportTableTest, NoReportSpeaksForAnotherRank) {
  const auto forged = [](Report report) {
    report.set_job_id("victim");
    report.set_job_uid(kOther.job_uid);
    report.set_epoch(7);
    report.set_rank(3);
    return report;
  };
  const auto expect_own = [](const Report& report) {
    EXPECT_EQ(KeyOf(report), kKey);
    EXPECT_EQ(report.job_id(), "job");
  };
  ReportTable table(expect_own);
  table.Add(kKey, "job", 0, "log");
  table.Add(kOther, "victim", 1, "log");
  table.Logged(kKey, {forged(Step(1))});
  Report live = Step(2);
  live.set_job_id("victim");
  EXPECT_EQ(table.Live(live), Arrival::kTaken);
  table.Logged(kKey, {forged(Exit(3))});
  EXPECT_TRUE(table.Exit(kKey).has_value());
  EXPECT_FALSE(table.Exit(kOther).has_value());
  table.End(kKey, /*stopped=*/false);
  for (int64_t sequence = 1; sequence <= 3; ++sequence) {
    const ReportTable::Turn turn = table.Next({});
    ASSERT_TRUE(turn.report.has_value());
    EXPECT_EQ(turn.report->sequence(), sequence);
    expect_own(*turn.report);
  }
  // The same of what is read from the log again.
  ReportTable few(expect_own, {.recent = 1, .most = 1});
  few.Add(kKey, "job", 0, "log");
  few.Logged(kKey, {forged(Step(1)), forged(Step(2))});
  EXPECT_EQ(few.Next({}).sequence, 1);
  few.Fetched(kKey, {forged(Step(1))});
  const ReportTable::Turn again = few.Next({});
  ASSERT_TRUE(again.report.has_value());
  expect_own(*again.report);
}

TEST_F(ReportTableTest, ADroppedRankIsForgottenAndItsEndObserved) {
  table_.Add(kKey, "job", 0, "log");
  table_.Live(Step(1));
  EXPECT_TRUE(table_.Drop(kKey));
  EXPECT_FALSE(table_.Drop(kKey));
  EXPECT_THAT(Drain(), IsEmpty());
  EXPECT_EQ(observed_.size(), 2u);
}

}  // namespace
}  // namespace stretto::daemon
