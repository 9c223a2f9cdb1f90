// SPDX-License-Identifier: Apache-2.0

// A run that has nothing left to train.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/trainer/training.h"

namespace stretto::trainer {
namespace {

using testing::IsEmpty;

class LastStepTest : public TrainingTest {};

// An earlier attempt was killed between its last step and its exit.
TEST_F(LastStepTest, ARunThatResumesFromItsLastStepIsCompleteWithoutTraining) {
  for (const bool evaluates : {false, true}) {
    if (evaluates) Evaluate();
    const TrainResult result = Run(TrainState{.step = 6, .updates = 6, .consumed_samples = 36});
    EXPECT_EQ(result.reason, ExitReason::kCompleted);
    EXPECT_EQ(result.status, absl::OkStatus());
    EXPECT_EQ(result.state.step, 6);
    EXPECT_THAT(Steps(), IsEmpty());
    EXPECT_THAT(Saved(), IsEmpty());
  }
}

}  // namespace
}  // namespace stretto::trainer
