// SPDX-License-Identifier: Apache-2.0
#include "worker/report/flight_record.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/test_files.h"

namespace stretto {
namespace {

using testing::HasSubstr;

TEST(FlightRecordTest, TellsWhereAKilledProcessWas) {
  TestFolder folder;
  const std::string path = folder / "flight";
  const pid_t child = ::fork();
  if (child == 0) {
    auto recorder = FlightRecorder::Create(path);
    recorder->SetStep(41, absl::Seconds(1));
    recorder->SetPhase(FlightPhase::kBackward, absl::Seconds(2));
    recorder->SetOperation(FlightLane::kCompute, 17, absl::Seconds(3));
    recorder->SetOperation(FlightLane::kComm, 18, absl::Seconds(4));
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));

  const auto state = ReadFlightRecord(path);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->step, 41);
  EXPECT_STREQ(NameOf(state->phase), "backward");
  EXPECT_EQ(state->compute_operation, 17);
  EXPECT_EQ(state->comm_operation, 18);
  EXPECT_EQ(state->last_operation, 18);
  EXPECT_EQ(state->last_update, absl::Seconds(4));
}

TEST(FlightRecordTest, LastOperationIsThatOfTheLaneThatMovedLast) {
  TestFolder folder;
  auto recorder = FlightRecorder::Create(folder / "flight");
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  EXPECT_EQ(ReadFlightRecord(folder / "flight")->last_operation, -1);
  recorder->SetOperation(FlightLane::kComm, 5, absl::Seconds(1));
  recorder->SetOperation(FlightLane::kCompute, 4, absl::Seconds(2));
  EXPECT_EQ(ReadFlightRecord(folder / "flight")->last_operation, 4);
}

TEST(FlightRecordTest, OtherFilesAreRefused) {
  TestFolder folder;
  EXPECT_EQ(ReadFlightRecord(folder / "none").status().code(), absl::StatusCode::kNotFound);
  Spill(folder / "short", "abc");
  absl::Status status = ReadFlightRecord(folder / "short").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("short: found 3 bytes"));
  Spill(folder / "other", std::string(4096, 'x'));
  status = ReadFlightRecord(folder / "other").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("found no flight record at byte 0"));
  { auto recorder = FlightRecorder::Create(folder / "phase"); }
  std::string bytes = Slurp(folder / "phase");
  bytes[16] = 99;
  Spill(folder / "phase", bytes);
  status = ReadFlightRecord(folder / "phase").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("phase at byte 16: found 99"));
}

TEST(FlightRecordTest, FullDiskIsAnErrorAtCreateAndNotASignalLater) {
  TestFolder folder;
  FullDisk disk(1024);
  const auto recorder = FlightRecorder::Create(folder / "flight");
  EXPECT_EQ(recorder.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(recorder.status().message()), HasSubstr("allocate"));
}

TEST(OperationLineTest, FindsTheLineThatStartsWithTheNumber) {
  TestFolder folder;
  Spill(folder / "program.txt",
        "lanes compute comm.tp\n1 compute gemm L0.fc1\n18 comm.tp all_reduce L3.fc2 fwd mb0 s0\n"
        "118 compute gemm L4.fc1");
  EXPECT_EQ(*OperationLine(folder / "program.txt", 18), "18 comm.tp all_reduce L3.fc2 fwd mb0 s0");
  EXPECT_EQ(*OperationLine(folder / "program.txt", 118), "118 compute gemm L4.fc1");
  const absl::Status status = OperationLine(folder / "program.txt", 8).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("program.txt: found no operation 8"));
}

}  // namespace
}  // namespace stretto
