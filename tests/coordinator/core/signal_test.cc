// SPDX-License-Identifier: Apache-2.0

// Which rank a job names that somebody outside has stopped by a signal.

#include <gtest/gtest.h>

#include "tests/coordinator/core/scene.h"

namespace stretto::coordinator::testing {
namespace {

// Two workers of one slot each, one gang of two across them, RUNNING.
void StartAcross(Scene& scene) {
  scene.Register("a", 1);
  scene.Register("b", 1);
  scene.Submit("j", 2);
  scene.Prepare("j");
  ASSERT_EQ(scene.job("j").state, JobState::kRunning);
}

// SIGTERM from outside to one trainer: all ranks agree to stop, and any may report first.
TEST(SignalTest, TheRankThatTookASignalIsNamedBeforeThoseThatStoppedAlongWithIt) {
  for (const int32_t signalled : {0, 1}) {
    Scene scene;
    StartAcross(scene);
    const auto exit = [&](int32_t rank) {
      RankExited exited;
      exited.reason = rank == signalled ? "Terminated" : "Cancelled";
      exited.message = rank == signalled ? "received SIGTERM" : "";
      exited.step = 7;
      scene.Exit("j", rank, exited);
    };
    exit(0);
    exit(1);
    const JobRecord& job = scene.job("j");
    EXPECT_EQ(job.state, JobState::kFailed);
    EXPECT_EQ(job.first_failure->rank, signalled);
    EXPECT_EQ(job.first_failure->reason, "Terminated");
    EXPECT_EQ(job.first_failure->message, "exited with code 0 at step 7: received SIGTERM");
  }
}

TEST(SignalTest, ACrashExplainsMoreThanASignalFromOutside) {
  Scene scene;
  StartAcross(scene);
  RankExited exited;
  exited.reason = "Terminated";
  scene.Exit("j", 0, exited);
  scene.Exit("j", 1, Failed(1, "NonFiniteLoss"));
  EXPECT_EQ(scene.job("j").first_failure->rank, 1);
}

}  // namespace
}  // namespace stretto::coordinator::testing
