// SPDX-License-Identifier: Apache-2.0
#include "worker/report/report_log.h"

#include <filesystem>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/reporting/dropped_reports.h"
#include "stretto/v1alpha1/worker.pb.h"
#include "tests/worker/mutate.h"
#include "tests/worker/test_files.h"
#include "worker/report/record_file.h"

namespace stretto {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using v1alpha1::RankReport;

class ReportLogTest : public testing::Test {
 protected:
  // Appends reports of steps first ... last.
  void AppendSteps(int64_t first, int64_t last) {
    auto log = ReportLog::Open(path_);
    ASSERT_TRUE(log.ok()) << log.status();
    for (int64_t step = first; step <= last; ++step) {
      RankReport report;
      report.mutable_checkpoint()->set_step(step);
      ASSERT_TRUE(log->Append(&report).ok());
    }
  }
  std::vector<int64_t> StepsAfter(int64_t sequence) {
    const auto reports = ReadAfter(path_, sequence);
    EXPECT_TRUE(reports.ok()) << reports.status();
    std::vector<int64_t> steps;
    if (!reports.ok()) return steps;
    for (const RankReport& report : *reports) steps.push_back(report.checkpoint().step());
    return steps;
  }

  static std::string Framed(const RankReport& report) {
    std::string record;
    AppendRecord(report.SerializeAsString(), &record);
    return record;
  }
  // "4", and "2-3" where 3 counts 2 as dropped.
  static std::vector<std::string> NumbersOf(const std::vector<RankReport>& reports) {
    std::vector<std::string> numbers;
    for (const RankReport& report : reports) {
      const int64_t first = FirstNumber(report), last = report.sequence();
      numbers.push_back(first < last ? absl::StrCat(first, "-", last) : absl::StrCat(last));
    }
    return numbers;
  }

  TestFolder folder_;
  std::string path_ = folder_ / "reports";
};

TEST_F(ReportLogTest, SequenceNumbersCountFromOneAndGoOnAfterReopening) {
  AppendSteps(10, 12);
  AppendSteps(13, 13);
  const auto reports = ReadAfter(path_, 0);
  ASSERT_TRUE(reports.ok());
  ASSERT_EQ(reports->size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ((*reports)[i].sequence(), static_cast<int64_t>(i) + 1);
  EXPECT_THAT(StepsAfter(2), ElementsAre(12, 13));
  EXPECT_THAT(StepsAfter(4), IsEmpty());
  EXPECT_EQ(ReportLog::Open(path_)->last_sequence(), 4);
}

TEST_F(ReportLogTest, MissingLogHasNoReports) { EXPECT_THAT(StepsAfter(0), IsEmpty()); }

TEST_F(ReportLogTest, ReaderFollowsAGrowingLog) {
  ReportReader reader(path_);
  EXPECT_THAT(*reader.ReadNew(), IsEmpty());
  AppendSteps(1, 3);
  EXPECT_EQ(reader.ReadNew(2)->size(), 2u);
  EXPECT_EQ(reader.ReadNew()->size(), 1u);
  EXPECT_THAT(*reader.ReadNew(), IsEmpty());
  AppendSteps(4, 4);
  const auto last = reader.ReadNew();
  ASSERT_EQ(last->size(), 1u);
  EXPECT_EQ(last->front().checkpoint().step(), 4);
  EXPECT_EQ(reader.last_sequence(), 4);
}

TEST_F(ReportLogTest, EveryTornTailIsDroppedAndTheNumberingContinues) {
  AppendSteps(1, 3);
  const std::string whole = Slurp(path_);
  const size_t record = whole.size() / 3;
  for (size_t size = 2 * record; size < whole.size(); ++size) {
    Spill(path_, whole.substr(0, size));
    ASSERT_THAT(StepsAfter(0), ElementsAre(1, 2)) << size;
    AppendSteps(7, 7);
    ASSERT_THAT(StepsAfter(0), ElementsAre(1, 2, 7)) << size;
  }
}

TEST_F(ReportLogTest, TailOfZerosAfterAPowerLossIsDropped) {
  AppendSteps(1, 2);
  Spill(path_, Slurp(path_) + std::string(5000, '\0'));
  EXPECT_THAT(StepsAfter(0), ElementsAre(1, 2));
  AppendSteps(3, 3);
  EXPECT_THAT(StepsAfter(0), ElementsAre(1, 2, 3));
}

TEST_F(ReportLogTest, LastRecordWithAWrongChecksumIsATornTail) {
  AppendSteps(1, 3);
  std::string bytes = Slurp(path_);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  Spill(path_, bytes);
  EXPECT_THAT(StepsAfter(0), ElementsAre(1, 2));
}

// One flipped bit, wherever it is, costs the report that has it and no other.
TEST_F(ReportLogTest, ADamagedRecordIsReplacedByAWarningAndTheRestIsRead) {
  AppendSteps(1, 4);
  const std::string whole = Slurp(path_);
  const size_t record = whole.size() / 4;
  for (size_t bit = 8 * record; bit < 16 * record; ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    Spill(path_, bytes);
    ReportReader reader(path_);
    const auto reports = reader.ReadNew();
    ASSERT_TRUE(reports.ok()) << reports.status();
    ASSERT_EQ(reports->size(), 4u) << bit;
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ((*reports)[i].sequence(), static_cast<int64_t>(i) + 1);
      EXPECT_EQ((*reports)[i].has_warning(), i == 1) << bit;
    }
    EXPECT_EQ((*reports)[3].checkpoint().step(), 4);
    const auto& warning = (*reports)[1].warning();
    EXPECT_EQ(warning.condition(), "LogIntact");
    EXPECT_EQ(warning.reason(), "LogDamaged");
    EXPECT_THAT(warning.message(), HasSubstr("1 report lost: " + path_ + ": "));
    EXPECT_EQ(reader.damage().code(), absl::StatusCode::kDataLoss);
    ASSERT_THAT(*reader.ReadNew(), IsEmpty());
  }
  Spill(path_, whole);
  ReportReader intact(path_);
  EXPECT_EQ(intact.ReadNew()->size(), 4u);
  EXPECT_TRUE(intact.damage().ok());
}

TEST_F(ReportLogTest, TheWriterContinuesADamagedLog) {
  AppendSteps(1, 3);
  std::string bytes = Slurp(path_);
  bytes[bytes.size() / 3 + 10] = 0x55;
  Spill(path_, bytes);
  AppendSteps(4, 4);
  const auto reports = ReadAfter(path_, 0);
  ASSERT_TRUE(reports.ok()) << reports.status();
  ASSERT_EQ(reports->size(), 4u);
  EXPECT_TRUE((*reports)[1].has_warning());
  EXPECT_EQ((*reports)[3].checkpoint().step(), 4);
}

TEST_F(ReportLogTest, OneWarningCountsTheReportsOfAGap) {
  AppendSteps(1, 5);
  const std::string bytes = Slurp(path_);
  const size_t record = bytes.size() / 5;
  Spill(path_, bytes.substr(0, record) + bytes.substr(3 * record));
  const auto reports = ReadAfter(path_, 0);
  ASSERT_TRUE(reports.ok()) << reports.status();
  EXPECT_THAT(NumbersOf(*reports), ElementsAre("1", "2-3", "4", "5"));
  EXPECT_THAT((*reports)[1].warning().message(),
              AllOf(HasSubstr("2 reports lost: "), HasSubstr("sequence of the record"),
                    HasSubstr("found 4, expected 2")));
}

// Bytes that are no record, but no report is missing.
TEST_F(ReportLogTest, BytesBetweenRecordsCostNoReport) {
  AppendSteps(1, 2);
  std::string bytes = Slurp(path_);
  bytes.insert(bytes.size() / 2, "strange bytes, strange bytes");
  Spill(path_, bytes);
  ReportReader reader(path_);
  const auto reports = reader.ReadNew();
  ASSERT_TRUE(reports.ok()) << reports.status();
  EXPECT_THAT(NumbersOf(*reports), ElementsAre("1", "2"));
  EXPECT_FALSE(reader.damage().ok());
}

// A record of some forty bytes once became a million warnings, which were held in memory at once.
TEST_F(ReportLogTest, AFewBytesAreOneWarningWhateverTheirNumber) {
  for (const int64_t number : {int64_t{1'002}, kMaxTrainerNumber}) {
    RankReport far;
    far.set_epoch(1);
    far.set_sequence(number);
    Spill(path_, Framed(far));
    const auto reports = ReadAfter(path_, 0);
    ASSERT_TRUE(reports.ok()) << reports.status();
    EXPECT_THAT(NumbersOf(*reports),
                ElementsAre(absl::StrCat("1-", number - 1), absl::StrCat(number)));
  }
}

TEST_F(ReportLogTest, NumbersThatNoReportHasAreDamage) {
  RankReport wrong;
  wrong.set_epoch(1);
  const auto expect_damage = [&](int64_t sequence, int64_t dropped) {
    wrong.set_sequence(sequence);
    wrong.mutable_dropped()->set_reports(dropped);
    Spill(path_, Framed(wrong));
    EXPECT_THAT(*ReadAfter(path_, 0), IsEmpty()) << sequence << " " << dropped;
    // The writer cuts it off as it does other damage at the end.
    AppendSteps(5, 5);
    EXPECT_THAT(StepsAfter(0), ElementsAre(5));
  };
  expect_damage(0, 0);
  expect_damage(-1, 0);
  expect_damage(kMaxTrainerNumber + 1, 0);
  expect_damage(INT64_MAX, INT64_MAX - 1);
  expect_damage(3, 3);
  expect_damage(3, -1);
  expect_damage(INT64_MIN, INT64_MAX);
}

// A torn tail shows only whole records before it, even while another process writes it.
TEST_F(ReportLogTest, AReaderWaitsForARecordThatIsBeingWritten) {
  AppendSteps(1, 2);
  const std::string whole = Slurp(path_);
  Spill(path_, whole.substr(0, whole.size() - 3));
  ReportReader reader(path_);
  EXPECT_EQ(reader.ReadNew()->size(), 1u);
  EXPECT_TRUE(reader.damage().ok());
  Spill(path_, whole);
  EXPECT_EQ(reader.ReadNew()->size(), 1u);
}

TEST_F(ReportLogTest, FullDiskKeepsTheWholeRecordsAndTheNumber) {
  AppendSteps(1, 2);
  auto log = ReportLog::Open(path_);
  ASSERT_TRUE(log.ok());
  RankReport report;
  report.set_job_id(std::string(1000, 'x'));
  {
    FullDisk disk(500);
    const absl::Status status = log->Append(&report);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("write " + path_));
    EXPECT_THAT(StepsAfter(0), ElementsAre(1, 2));
  }
  EXPECT_EQ(log->last_sequence(), 2);
  ASSERT_TRUE(log->Append(&report).ok());
  EXPECT_EQ(report.sequence(), 3);
  EXPECT_EQ(ReadAfter(path_, 2)->size(), 1u);
}

TEST_F(ReportLogTest, MutatedLogsGiveReportsWithoutGapsAndNeverCrash) {
  AppendSteps(1, 5);
  const std::string whole = Slurp(path_);
  std::mt19937_64 random(2);
  int lost = 0;
  for (int i = 0; i < 2000; ++i) {
    Spill(path_, Mutate(whole, &random));
    const auto reports = ReadAfter(path_, 0);
    ASSERT_TRUE(reports.ok()) << reports.status();
    int64_t known = 0;
    for (const RankReport& report : *reports) {
      ASSERT_EQ(FirstNumber(report), known + 1);
      known = report.sequence();
      lost += report.has_warning();
    }
  }
  EXPECT_GT(lost, 100);
}

}  // namespace
}  // namespace stretto
