#include "worker/trainer/exit_reason.h"

#include <gtest/gtest.h>

namespace stretto::trainer {
namespace {

TEST(ExitReasonTest, OfPrepareFollowsTheCode) {
  EXPECT_EQ(ReasonOfPrepare(absl::NotFoundError("")), "DataInvalid");
  EXPECT_EQ(ReasonOfPrepare(absl::DataLossError("")), "CheckpointInvalid");
  EXPECT_EQ(ReasonOfPrepare(absl::FailedPreconditionError("")), "ResumeRefused");
  EXPECT_EQ(ReasonOfPrepare(absl::ResourceExhaustedError("")), "InsufficientMemory");
  EXPECT_EQ(ReasonOfPrepare(absl::AbortedError("")), "Cancelled");
  EXPECT_EQ(ReasonOfPrepare(absl::UnavailableError("")), "PeerLost");
  EXPECT_EQ(ReasonOfPrepare(absl::InternalError("")), "PrepareFailed");
}

TEST(ExitReasonTest, ADeviceThatIsNotThereHasAReasonOfItsOwn) {
  for (const absl::Status& status :
       {absl::NotFoundError("no plug-in"), absl::FailedPreconditionError("another build"),
        absl::UnavailableError("the driver says no"), absl::InternalError("broken")}) {
    const absl::Status marked = OfDevice(status);
    EXPECT_EQ(ReasonOfPrepare(marked), "DeviceUnavailable") << status;
    EXPECT_EQ(marked.code(), status.code());
    EXPECT_EQ(marked.message(), status.message());
  }
}

TEST(ExitReasonTest, WeightsThatCannotBeTakenHaveAReasonOfTheirOwn) {
  for (const absl::Status& status :
       {absl::NotFoundError("none"), absl::InvalidArgumentError("another model"),
        absl::DataLossError("cut off"), absl::UnavailableError("read error")}) {
    EXPECT_EQ(ReasonOfPrepare(OfWeights(status)), "WeightsInvalid") << status;
    EXPECT_EQ(OfWeights(status).message(), status.message());
  }
  EXPECT_TRUE(OfWeights(absl::OkStatus()).ok());
  EXPECT_EQ(ReasonOfPrepare(OfWeights(absl::AbortedError(""))), "Cancelled");
}

TEST(ExitReasonTest, WhatMeansTheSameOnADeviceKeepsItsReason) {
  EXPECT_TRUE(OfDevice(absl::OkStatus()).ok());
  EXPECT_EQ(ReasonOfPrepare(OfDevice(absl::ResourceExhaustedError(""))), "InsufficientMemory");
  EXPECT_EQ(ReasonOfPrepare(OfDevice(absl::DeadlineExceededError(""))), "PeerLost");
  EXPECT_EQ(ReasonOfPrepare(OfDevice(absl::AbortedError(""))), "Cancelled");
}

TEST(ExitReasonTest, OfAStepSaysWhetherAPeerOrTheDeviceFailed) {
  EXPECT_EQ(ReasonOfStep(absl::AbortedError("")), "Cancelled");
  EXPECT_EQ(ReasonOfStep(absl::UnavailableError("")), "PeerLost");
  EXPECT_EQ(ReasonOfStep(absl::DeadlineExceededError("")), "PeerLost");
  EXPECT_EQ(ReasonOfStep(absl::InternalError("")), "DeviceFailed");
}

}  // namespace
}  // namespace stretto::trainer
