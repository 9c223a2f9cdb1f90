// SPDX-License-Identifier: Apache-2.0

// Assignments that a worker cannot take.

#include <gtest/gtest.h>

#include "tests/coordinator/core/scene.h"

namespace stretto::coordinator::testing {
namespace {

// An assignment that cannot be sent fails its job once, and nothing that came later.
TEST(AssignmentRefusedTest, FailsTheRanksThatWereToStartThere) {
  Scene scene;
  scene.Register("a", 1);
  scene.Register("b", 1);
  scene.Submit("j", 2);
  const JobRecord job = scene.job("j");
  EXPECT_TRUE(scene.RefuseAssignment("a", "j", Epoch(job.epoch.value() + 1)).status.ok());
  EXPECT_EQ(scene.job("j").state, JobState::kPreparing);  // of another attempt
  EXPECT_TRUE(scene.RefuseAssignment("a", "j", job.epoch).status.ok());
  EXPECT_EQ(scene.job("j").ranks[0].state, RankState::kLost);
  EXPECT_EQ(scene.job("j").first_failure->reason, "SpecRefused");
  EXPECT_EQ(scene.job("j").first_failure->message, "too long");
  EXPECT_TRUE(scene.Exit("j", 1, Stopped()).status.ok());
  EXPECT_EQ(scene.job("j").state, JobState::kFailed);
  EXPECT_TRUE(scene.core().FindWorker("a")->ready());
  EXPECT_EQ(scene.core().FreeSlots("a"), 1);
  EXPECT_TRUE(scene.RefuseAssignment("a", "j", job.epoch).status.ok());  // late
}

// The trainer that started before knows better than a repeated assignment.
TEST(AssignmentRefusedTest, LeavesARankThatHasPrepared) {
  Scene scene;
  scene.Register("a", 2);
  scene.Submit("j", 2);
  scene.Report("j", 0, RankPrepared{scene.now()});
  scene.RefuseAssignment("a", "j", scene.job("j").epoch);
  EXPECT_EQ(scene.job("j").ranks[0].state, RankState::kPrepared);
  EXPECT_EQ(scene.job("j").ranks[1].state, RankState::kLost);
}

}  // namespace
}  // namespace stretto::coordinator::testing
