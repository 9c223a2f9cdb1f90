// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/exit_reason.h"

#include <gtest/gtest.h>

#include <csignal>
#include <utility>

#include "tests/worker/test_files.h"

namespace stretto::trainer {
namespace {

TEST(ExitReasonTest, OfPrepareFollowsTheCode) {
  // Such as a backend that refuses a program: not the data's fault.
  EXPECT_EQ(ReasonOfPrepare(absl::InvalidArgumentError("")), ExitReason::kPrepareFailed);
  EXPECT_EQ(ReasonOfPrepare(absl::DataLossError("")), ExitReason::kCheckpointInvalid);
  EXPECT_EQ(ReasonOfPrepare(absl::FailedPreconditionError("")), ExitReason::kResumeRefused);
  EXPECT_EQ(ReasonOfPrepare(absl::ResourceExhaustedError("")), ExitReason::kInsufficientMemory);
  EXPECT_EQ(ReasonOfPrepare(absl::AbortedError("")), ExitReason::kCancelled);
  EXPECT_EQ(ReasonOfPrepare(absl::UnavailableError("")), ExitReason::kPeerLost);
  EXPECT_EQ(ReasonOfPrepare(absl::InternalError("")), ExitReason::kPrepareFailed);
}

TEST(ExitReasonTest, ADeviceThatIsNotThereHasAReasonOfItsOwn) {
  for (const absl::Status& status :
       {absl::NotFoundError("no plug-in"), absl::FailedPreconditionError("another build"),
        absl::UnavailableError("the driver says no"), absl::InternalError("broken")}) {
    const absl::Status marked = OfDevice(status);
    EXPECT_EQ(ReasonOfPrepare(marked), ExitReason::kDeviceUnavailable) << status;
    EXPECT_EQ(marked.code(), status.code());
    EXPECT_EQ(marked.message(), status.message());
  }
}

TEST(ExitReasonTest, DataThatCannotBeReadHasAReasonOfItsOwn) {
  for (const absl::Status& status :
       {absl::NotFoundError("none"), absl::InvalidArgumentError("not a data set"),
        absl::OutOfRangeError("too few"), absl::PermissionDeniedError("not yours"),
        absl::DataLossError("cut off")}) {
    EXPECT_EQ(ReasonOfPrepare(OfData(status)), ExitReason::kDataInvalid) << status;
  }
  EXPECT_EQ(ReasonOfPrepare(OfData(absl::AbortedError(""))), ExitReason::kCancelled);
}

TEST(ExitReasonTest, WeightsThatCannotBeTakenHaveAReasonOfTheirOwn) {
  for (const absl::Status& status :
       {absl::NotFoundError("none"), absl::InvalidArgumentError("another model"),
        absl::DataLossError("cut off"), absl::UnavailableError("read error")}) {
    EXPECT_EQ(ReasonOfPrepare(OfWeights(status)), ExitReason::kWeightsInvalid) << status;
    EXPECT_EQ(OfWeights(status).message(), status.message());
  }
  EXPECT_TRUE(OfWeights(absl::OkStatus()).ok());
  EXPECT_EQ(ReasonOfPrepare(OfWeights(absl::AbortedError(""))), ExitReason::kCancelled);
}

TEST(ExitReasonTest, WhatMeansTheSameOnADeviceKeepsItsReason) {
  EXPECT_TRUE(OfDevice(absl::OkStatus()).ok());
  EXPECT_EQ(ReasonOfPrepare(OfDevice(absl::ResourceExhaustedError(""))),
            ExitReason::kInsufficientMemory);
  EXPECT_EQ(ReasonOfPrepare(OfDevice(absl::DeadlineExceededError(""))), ExitReason::kPeerLost);
  EXPECT_EQ(ReasonOfPrepare(OfDevice(absl::AbortedError(""))), ExitReason::kCancelled);
}

TEST(ExitReasonTest, OfAStepSaysWhetherAPeerOrTheDeviceFailed) {
  EXPECT_EQ(ReasonOfStep(absl::AbortedError("")), ExitReason::kCancelled);
  EXPECT_EQ(ReasonOfStep(absl::UnavailableError("")), ExitReason::kPeerLost);
  EXPECT_EQ(ReasonOfStep(absl::DeadlineExceededError("")), ExitReason::kPeerLost);
  EXPECT_EQ(ReasonOfStep(absl::InternalError("")), ExitReason::kDeviceFailed);
  EXPECT_EQ(ReasonOfStep(absl::ResourceExhaustedError("")), ExitReason::kInsufficientMemory);
  // A refusal by a backend looks like one of data, and only what read the data knows that it was.
  EXPECT_EQ(ReasonOfStep(absl::InvalidArgumentError("")), ExitReason::kDeviceFailed);
  EXPECT_EQ(ReasonOfStep(OfData(absl::InvalidArgumentError(""))), ExitReason::kDataInvalid);
}

TEST(ExitReasonTest, OfACheckpointSaysWhetherRanksDriftedApart) {
  EXPECT_EQ(ReasonOfCheckpoint(absl::DataLossError("")), ExitReason::kReplicasDiffer);
  EXPECT_EQ(ReasonOfCheckpoint(absl::UnavailableError("")), ExitReason::kPeerLost);
}

class RankExitTest : public testing::Test {
 protected:
  RankExitTest() {
    FlightRecorder flight = FlightRecorder::Create(folder_ / "flight.bin").value();
    flight.SetOperation(FlightLane::kCompute, 1, absl::Nanoseconds(1));
    Spill(folder_ / "program.txt", "1 compute gemm L0.fc1 fwd mb0 s0 in=%1 out=%2\n");
  }
  v1alpha1::RankExit Exit(ExitReason reason, absl::Status status, const std::string& message = "") {
    return ExitOf({.state = {.step = 7},
                   .reason = reason,
                   .status = std::move(status),
                   .message = message},
                  folder_.path(), "the job was suspended")
        .value();
  }

  TestFolder folder_;
};

TEST_F(RankExitTest, CompletionIsClean) {
  const v1alpha1::RankExit exit = Exit(ExitReason::kEarlyStopped, absl::OkStatus(), "step 7 of 9");
  EXPECT_EQ(exit.exit_code(), 0);
  EXPECT_EQ(exit.reason(), "EarlyStopped");
  EXPECT_EQ(exit.message(), "step 7 of 9");
  EXPECT_EQ(exit.step(), 7);
  EXPECT_EQ(exit.last_operation(), "");
}

TEST_F(RankExitTest, AStopIsCleanIfItSavedWhatItWasAskedTo) {
  const v1alpha1::RankExit saved = Exit(ExitReason::kCancelled, absl::OkStatus());
  EXPECT_EQ(saved.exit_code(), 0);
  EXPECT_EQ(saved.message(), "the job was suspended");
  const v1alpha1::RankExit unsaved =
      Exit(ExitReason::kCancelled, absl::UnavailableError("stopped after step 7, but: disk full"));
  EXPECT_EQ(unsaved.exit_code(), 1);
  EXPECT_EQ(unsaved.reason(), "Cancelled");
  EXPECT_EQ(unsaved.message(), "stopped after step 7, but: disk full");
}

TEST_F(RankExitTest, ASignalThatNobodyAnnouncedIsNamedByTheRankThatTookIt) {
  const auto exit = [this](int signal, bool asked, ExitReason reason, const absl::Status& status) {
    TrainResult result = {.state = {.step = 7}, .reason = reason, .status = status};
    NoteSignal(signal, asked, &result);
    return *ExitOf(result, folder_.path(), asked ? "suspended" : "");
  };
  const v1alpha1::RankExit taken = exit(SIGTERM, false, ExitReason::kCancelled, absl::OkStatus());
  EXPECT_EQ(taken.reason(), "Terminated");
  EXPECT_EQ(taken.message(), "received SIGTERM");
  EXPECT_EQ(taken.exit_code(), 0) << "it saved what it had";
  EXPECT_EQ(exit(SIGINT, false, ExitReason::kCancelled, absl::OkStatus()).message(),
            "received SIGINT");
  // The daemon asks before it sends the signal.
  const v1alpha1::RankExit asked = exit(SIGTERM, true, ExitReason::kCancelled, absl::OkStatus());
  EXPECT_EQ(asked.reason(), "Cancelled");
  EXPECT_EQ(asked.message(), "suspended");
  // A rank that stops along with another one has taken none.
  EXPECT_EQ(exit(0, false, ExitReason::kCancelled, absl::OkStatus()).reason(), "Cancelled");
  // The last step was done already.
  EXPECT_EQ(exit(SIGTERM, false, ExitReason::kCompleted, absl::OkStatus()).reason(), "Completed");
  const v1alpha1::RankExit unsaved =
      exit(SIGTERM, false, ExitReason::kCancelled, absl::UnavailableError("disk full"));
  EXPECT_EQ(unsaved.exit_code(), 1);
  EXPECT_EQ(unsaved.message(), "disk full");
}

TEST_F(RankExitTest, AFailureNamesTheLastOperation) {
  const v1alpha1::RankExit exit = Exit(ExitReason::kDeviceFailed, absl::InternalError("no"));
  EXPECT_EQ(exit.exit_code(), 1);
  EXPECT_EQ(exit.message(), "no");
  EXPECT_EQ(exit.last_operation(), "1 compute gemm L0.fc1 fwd mb0 s0 in=%1 out=%2");
  EXPECT_FALSE(ExitOf(TrainResult(), folder_ / "nowhere", "").ok());
}

}  // namespace
}  // namespace stretto::trainer
