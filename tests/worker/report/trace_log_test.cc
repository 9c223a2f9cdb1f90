// SPDX-License-Identifier: Apache-2.0
#include "worker/report/trace_log.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "stretto/v1alpha1/job.pb.h"
#include "tests/worker/mutate.h"
#include "tests/worker/test_files.h"

namespace stretto {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using v1alpha1::TraceRecord;

// Some 1,000 bytes.
TraceRecord Step(int64_t step) {
  TraceRecord record;
  record.mutable_step()->set_step(step);
  for (int i = 0; i < 500; ++i) {
    record.mutable_step()->mutable_operations()->add_begin_nanoseconds(i % 100);
    record.mutable_step()->mutable_operations()->add_duration_nanoseconds(1);
  }
  return record;
}

class TraceLogTest : public testing::Test {
 protected:
  TraceLog Create(int64_t max_bytes = kTraceBytes) {
    std::vector<TraceRecord> program(2);
    program[0].mutable_program()->set_machine("box");
    program[1].mutable_program()->add_operations()->set_kind("gemm");
    return TraceLog::Create(folder_.path(), program, max_bytes).value();
  }

  static absl::Status Append(int64_t step, TraceLog* log) {
    log->Add(Step(step));
    return log->Commit();
  }

  void Record(int64_t first, int64_t last, int64_t max_bytes = kTraceBytes) {
    TraceLog log = Create(max_bytes);
    for (int64_t step = first; step <= last; ++step) ASSERT_TRUE(Append(step, &log).ok());
  }

  // What a reader gives: "program", step numbers, "! WARNING", and how it ends if not well.
  std::vector<std::string> Read(int64_t first = 0, int64_t last = 0) {
    std::vector<std::string> out;
    absl::StatusOr<TraceReader> reader = TraceReader::Open(folder_.path(), first, last);
    if (!reader.ok()) return {std::string(reader.status().message())};
    while (true) {
      const auto record = reader->Next();
      if (!record.ok()) {
        out.push_back(record.status().ToString());
        return out;
      }
      if (!record->has_value()) return out;
      if ((*record)->has_program()) out.push_back("program");
      if ((*record)->has_step()) out.push_back(std::to_string((*record)->step().step()));
      if (!(*record)->warning().empty()) out.push_back("! " + (*record)->warning());
    }
  }

  TestFolder folder_;
  const std::string new_ = folder_ / "trace.bin", old_ = folder_ / "trace.old.bin";
};

TEST_F(TraceLogTest, GivesTheProgramThenTheStepsOfTheRange) {
  Record(1, 6);
  EXPECT_THAT(Read(), ElementsAre("program", "program", "1", "2", "3", "4", "5", "6"));
  EXPECT_THAT(Read(3, 4), ElementsAre("program", "program", "3", "4"));
  EXPECT_THAT(Read(5), ElementsAre("program", "program", "5", "6"));
  EXPECT_THAT(Read(0, 1), ElementsAre("program", "program", "1"));
}

TEST_F(TraceLogTest, WithoutTheStepsAskedForSaysWhichAreKept) {
  EXPECT_THAT(Read(), ElementsAre("no step is recorded yet"));
  Record(4, 6);
  EXPECT_THAT(Read(7, 9), ElementsAre("program", "program",
                                      "NOT_FOUND: found steps 4 to 6 kept, expected some of 7 to "
                                      "9"));
  EXPECT_THAT(Read(8, 8), Contains("NOT_FOUND: found steps 4 to 6 kept, expected step 8"));
  EXPECT_THAT(Read(7), Contains("NOT_FOUND: found steps 4 to 6 kept, expected some of 7 or later"));
  Create();
  EXPECT_THAT(Read(), Contains("NOT_FOUND: no step is recorded yet"));
}

TEST_F(TraceLogTest, KeepsTheNewestStepsWithinItsBytes) {
  const int64_t max_bytes = 10'000;
  Record(1, 100, max_bytes);
  const int64_t bytes =
      static_cast<int64_t>(std::filesystem::file_size(new_) + std::filesystem::file_size(old_));
  EXPECT_LE(bytes, max_bytes);
  const std::vector<std::string> kept = Read();
  EXPECT_THAT(kept, testing::IsSupersetOf({"96", "97", "98", "99", "100"}));
  EXPECT_EQ(kept.back(), "100");
  // In order and without gaps.
  for (size_t i = 3; i < kept.size(); ++i) {
    EXPECT_EQ(std::stoi(kept[i]), std::stoi(kept[i - 1]) + 1);
  }
}

TEST_F(TraceLogTest, AStepLargerThanItsBytesIsKeptAllTheSame) {
  Record(1, 3, 100);
  EXPECT_THAT(Read(), ElementsAre("program", "program", "2", "3"));
}

TEST_F(TraceLogTest, AReaderThatIsOpenSeesItsStepsThroughARename) {
  TraceLog log = Create(10'000);
  for (int64_t step = 1; step <= 4; ++step) ASSERT_TRUE(Append(step, &log).ok());
  TraceReader reader = TraceReader::Open(folder_.path(), 0, 0).value();
  for (int64_t step = 5; step <= 40; ++step) ASSERT_TRUE(Append(step, &log).ok());
  std::vector<int64_t> steps;
  for (auto record = reader.Next(); record.ok() && record->has_value(); record = reader.Next()) {
    if ((*record)->has_step()) steps.push_back((*record)->step().step());
  }
  EXPECT_THAT(steps, ElementsAre(1, 2, 3, 4));
}

TEST_F(TraceLogTest, ANewTrainerStartsAfresh) {
  Record(1, 100, 10'000);
  Record(7, 7);
  EXPECT_THAT(Read(), ElementsAre("program", "program", "7"));
  EXPECT_FALSE(std::filesystem::exists(old_));
}

TEST_F(TraceLogTest, ATornEndIsToldAndTheRestIsGiven) {
  Record(1, 3);
  const std::string whole = Slurp(new_);
  Spill(new_, whole.substr(0, whole.size() - 5));
  EXPECT_THAT(Read(),
              ElementsAre("program", "program", "1", "2",
                          "! " + new_ + ": torn at byte " + std::to_string(whole.size() / 3 * 2) +
                              "; what follows in it is left out"));
}

TEST_F(TraceLogTest, DamageInTheOlderFileLeavesTheNewer) {
  Record(1, 12, 10'000);
  std::string damaged = Slurp(old_);
  damaged[100] = static_cast<char>(damaged[100] ^ 1);
  Spill(old_, damaged);
  const std::vector<std::string> read = Read();
  EXPECT_THAT(read[2], HasSubstr("! " + old_ + ": crc32c of the record at byte 0: found"));
  EXPECT_EQ(read.back(), "12");
}

TEST_F(TraceLogTest, ADamagedProgramIsAnError) {
  Record(1, 3);
  const std::string program = folder_ / "trace-program.bin";
  const std::string whole = Slurp(program);
  std::string damaged = whole;
  damaged[9] = static_cast<char>(damaged[9] ^ 1);
  Spill(program, damaged);
  EXPECT_THAT(Read(), ElementsAre(HasSubstr("DATA_LOSS: " + program)));
  Spill(program, whole.substr(0, whole.size() - 1));
  EXPECT_THAT(Read(), ElementsAre("program", HasSubstr("DATA_LOSS: " + program + ": torn")));
}

TEST_F(TraceLogTest, DamageNeverCrashesAReader) {
  Record(1, 12, 10'000);
  std::mt19937_64 random(7);
  for (const std::string& path : {new_, old_, folder_ / "trace-program.bin"}) {
    const std::string whole = Slurp(path);
    for (int i = 0; i < 200; ++i) {
      Spill(path, Mutate(whole, &random));
      Read();
    }
    Spill(path, whole);
  }
  EXPECT_THAT(Read(), SizeIs(testing::Gt(4u)));
}

TEST_F(TraceLogTest, AFullDiskLosesStepsAndNothingElse) {
  TraceLog log = Create();
  ASSERT_TRUE(Append(1, &log).ok());
  {
    FullDisk full(1500);
    EXPECT_TRUE(absl::IsResourceExhausted(Append(2, &log)));
    EXPECT_TRUE(absl::IsResourceExhausted(Append(3, &log)));
  }
  ASSERT_TRUE(Append(4, &log).ok());
  EXPECT_THAT(Read(), ElementsAre("program", "program", "1", "4"));
  FullDisk full(4);
  EXPECT_TRUE(
      absl::IsResourceExhausted(TraceLog::Create(folder_.path(), {Step(1)}, kTraceBytes).status()));
}

}  // namespace
}  // namespace stretto
