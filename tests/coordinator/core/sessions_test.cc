// SPDX-License-Identifier: Apache-2.0

// What becomes of the ranks that a worker registers with, or without.

#include <gtest/gtest.h>

#include "tests/coordinator/core/scene.h"

namespace stretto::coordinator::testing {
namespace {

// The disk of the node was full: its daemon relayed report 2 from memory and ended, and the next
// one numbered its report of the trainer's death from the log.
TEST(SessionsTest, AnEndedRankWhoseEndIsNotReportedAnyMoreIsLost) {
  Scene scene;
  scene.Register("a", 1);
  scene.Submit("j", 1);
  scene.Prepare("j");
  scene.Report("j", 0, StepDone{1, scene.now()});
  scene.Disconnect("a");
  scene.Register("a", 1, {{.job = "j", .rank = 0, .alive = false, .last_sequence = 3}});
  EXPECT_EQ(scene.job("j").state, JobState::kRunning);  // its end is report 3
  scene.Disconnect("a");
  scene.Register("a", 1, {{.job = "j", .rank = 0, .alive = false, .last_sequence = 2}});
  EXPECT_EQ(scene.job("j").state, JobState::kFailed);
  ASSERT_TRUE(scene.job("j").first_failure.has_value());
  EXPECT_EQ(scene.job("j").first_failure->reason, "TrainerLost");
  EXPECT_EQ(scene.job("j").first_failure->message,
            "it has ended, and worker a came back without the report of its end");
}

TEST(SessionsTest, RanksThatAreAssignedAgainCountTheirReportsFromOne) {
  Scene scene;
  scene.Register("a", 1);
  scene.Submit("j", 1);
  scene.Report("j", 0, RankWarned{"LogIntact", "DiskFull", "no space"});
  scene.Disconnect("a");
  scene.Register("a", 1);
  scene.Report(scene.MakeReport("j", 0, RankPrepared{scene.now()}, 1));
  EXPECT_EQ(scene.job("j").state, JobState::kRunning);
}

}  // namespace
}  // namespace stretto::coordinator::testing
