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

TEST(FlightRecordTest, HasTheCallsOfEachGroup) {
  TestFolder folder;
  auto recorder = FlightRecorder::Create(folder / "flight");
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  EXPECT_THAT(ReadFlightRecord(folder / "flight")->channels, testing::IsEmpty());
  const int control = recorder->AddChannel("control");
  const int tp = recorder->AddChannel(std::string(40, 'x'));
  recorder->BeginCall(control, absl::Seconds(1));
  recorder->AwaitPeer(control, 3, true, absl::Seconds(2));
  recorder->EndCall(control, absl::Seconds(3));
  recorder->BeginCall(tp, absl::Seconds(4));
  recorder->BeginCall(control, absl::Seconds(5));
  recorder->AwaitPeer(control, 2, false, absl::Seconds(6));

  const auto state = ReadFlightRecord(folder / "flight");
  ASSERT_TRUE(state.ok()) << state.status();
  ASSERT_EQ(state->channels.size(), 2u);
  EXPECT_EQ(state->channels[0].group, "control");
  EXPECT_EQ(state->channels[0].begun, 2);
  EXPECT_TRUE(state->channels[0].waiting);
  EXPECT_EQ(state->channels[0].peer, 2);
  EXPECT_FALSE(state->channels[0].receives);
  EXPECT_EQ(state->channels[1].group, std::string(31, 'x'));
  EXPECT_TRUE(state->channels[1].waiting);
  EXPECT_EQ(state->channels[1].peer, -1);
  EXPECT_EQ(state->last_update, absl::Seconds(6));

  recorder->EndCall(control, absl::Seconds(7));
  const auto later = ReadFlightRecord(folder / "flight");
  EXPECT_FALSE(later->channels[0].waiting);
  EXPECT_EQ(later->channels[0].peer, -1);  // that of a call in progress
  EXPECT_EQ(later->last_update, absl::Seconds(7));
}

// It is no move either: a rank that looks for the end of a call stays in it.
TEST(FlightRecordTest, TellsWhoLooksForTheCallsOfADevice) {
  TestFolder folder;
  auto recorder = FlightRecorder::Create(folder / "flight");
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  recorder->AddChannel("control");
  const int tp = recorder->AddChannel("tp.0");
  const auto channels = [&] { return ReadFlightRecord(folder / "flight")->channels; };
  EXPECT_FALSE(channels()[1].on_device);
  recorder->SetPolling(tp, true);
  EXPECT_TRUE(channels()[1].on_device);
  EXPECT_TRUE(channels()[1].polls);
  recorder->SetPolling(tp, false);
  EXPECT_TRUE(channels()[1].on_device);
  EXPECT_FALSE(channels()[1].polls);
  EXPECT_FALSE(channels()[0].on_device);
  EXPECT_EQ(ReadFlightRecord(folder / "flight")->last_update, absl::ZeroDuration());
}

TEST(FlightRecordTest, GroupsBeyondTheLimitAreNotRecorded) {
  TestFolder folder;
  auto recorder = FlightRecorder::Create(folder / "flight");
  for (int i = 0; i < kMaxFlightChannels; ++i) EXPECT_EQ(recorder->AddChannel("g"), i);
  const int none = recorder->AddChannel("late");
  recorder->BeginCall(none, absl::Seconds(1));
  recorder->AwaitPeer(none, 1, true, absl::Seconds(1));
  recorder->EndCall(none, absl::Seconds(1));
  recorder->SetPolling(none, true);
  const auto state = ReadFlightRecord(folder / "flight");
  EXPECT_EQ(state->channels.size(), static_cast<size_t>(kMaxFlightChannels));
  EXPECT_EQ(state->last_update, absl::ZeroDuration());
}

// They are no move: a rank that only lives, or that works as announced, stays where it is.
TEST(FlightRecordTest, HasSignsOfLifeAndAnnouncedWork) {
  TestFolder folder;
  auto recorder = FlightRecorder::Create(folder / "flight");
  recorder->Pulse(absl::Seconds(5), absl::Milliseconds(1500));
  recorder->Announce(absl::Seconds(60));
  const auto state = ReadFlightRecord(folder / "flight");
  EXPECT_EQ(state->pulse, absl::Seconds(5));
  EXPECT_EQ(state->cpu, absl::Milliseconds(1500));
  EXPECT_EQ(state->announced_until, absl::Seconds(60));
  EXPECT_EQ(state->last_update, absl::ZeroDuration());
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
