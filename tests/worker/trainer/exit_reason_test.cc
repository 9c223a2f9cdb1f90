// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/exit_reason.h"

#include <gtest/gtest.h>

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
}

TEST(ExitReasonTest, OfACheckpointSaysWhetherRanksDriftedApart) {
  EXPECT_EQ(ReasonOfCheckpoint(absl::DataLossError("")), ExitReason::kReplicasDiffer);
  EXPECT_EQ(ReasonOfCheckpoint(absl::UnavailableError("")), ExitReason::kPeerLost);
}

}  // namespace
}  // namespace stretto::trainer
