// SPDX-License-Identifier: Apache-2.0

// Hangs in the core: what becomes of positions that daemons report.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/core/scene.h"
#include "tests/coordinator/core/still_ranks.h"

namespace stretto::coordinator::testing {
namespace {

using ::testing::HasSubstr;

// Two ranks on two workers, RUNNING.
class HangTest : public ::testing::Test {
 protected:
  void SetUp() override {
    scene_.Register("a", 1);
    scene_.Register("b", 1);
    scene_.Submit("job", 2);
    scene_.Prepare("job");
  }
  Scene scene_;
};

TEST_F(HangTest, FailsTheJobNamingTheRankThatIsBehind) {
  scene_.Still("a", "job", {{0, Still({Receives("tp.0", 5, 1)})}});
  EXPECT_EQ(scene_.job("job").stop_reason, "");
  scene_.TakeLog();
  scene_.Still("b", "job", {{1, Still({Done("tp.0", 4)})}});
  const JobRecord job = scene_.job("job");
  ASSERT_TRUE(job.first_failure.has_value());
  EXPECT_EQ(job.first_failure->rank, 1);
  EXPECT_EQ(job.first_failure->worker, "b");
  EXPECT_EQ(job.first_failure->reason, "Hang");
  EXPECT_EQ(job.first_failure->step, 7);
  EXPECT_EQ(job.first_failure->phase, "forward");
  EXPECT_EQ(job.first_failure->last_operation, "17 compute gemm");
  const std::string log = scene_.TakeText();
  EXPECT_THAT(log, HasSubstr("send a stop job epoch=1 reason=Hang"));
  EXPECT_THAT(log, HasSubstr("send b stop job epoch=1 reason=Hang"));
  // What its daemon does to it explains nothing better.
  scene_.Exit("job", 0, Stopped());
  scene_.Exit("job", 1, Killed(9));
  EXPECT_EQ(scene_.job("job").state, JobState::kFailed);
  EXPECT_EQ(scene_.job("job").first_failure->rank, 1);
  EXPECT_EQ(scene_.job("job").FindCondition("Succeeded")->reason, "Hang");
}

TEST_F(HangTest, ARankThatMovedAgainIsForgotten) {
  scene_.Still("a", "job", {{0, Still({Receives("tp.0", 5, 1)})}});
  scene_.Still("a", "job", {});
  scene_.Still("b", "job", {{1, Still({Done("tp.0", 4)})}});
  EXPECT_EQ(scene_.job("job").state, JobState::kRunning);
  EXPECT_EQ(scene_.job("job").stop_reason, "");
}

TEST_F(HangTest, WhileAWorkerIsLostNobodyIsJudged) {
  scene_.Disconnect("b");
  scene_.Still("a", "job", {{0, Frozen(Still({Receives("tp.0", 5, 1)}))}});
  EXPECT_EQ(scene_.job("job").stop_reason, "");
  // What it knew of a rank before it registered again is not known any more.
  scene_.Register("b", 1, {{"job", 1}});
  scene_.Still("b", "job", {{1, Still({Done("tp.0", 4)})}});
  EXPECT_EQ(scene_.job("job").stop_reason, "Hang");
}

TEST_F(HangTest, PositionsOfOthersRanksOldEpochsAndOldSessionsChangeNothing) {
  scene_.Still("a", "job", {{1, Frozen(Still())}, {2, Frozen(Still())}, {-1, Frozen(Still())}});
  scene_.Still("a", "job", {{0, Frozen(Still())}}, Epoch(0));
  EXPECT_EQ(scene_.job("job").stop_reason, "");
  scene_.Disconnect("a");
  EXPECT_EQ(scene_.Still("a", "job", {{0, Frozen(Still())}}).status.code(),
            absl::StatusCode::kAborted);
}

TEST_F(HangTest, AJobThatIsPreparingMayHangToo) {
  scene_.Register("c", 1);
  scene_.Submit("next", 1);
  scene_.Still("c", "next", {{0, {.attached = false, .still = kLong}}});
  const JobRecord job = scene_.job("next");
  EXPECT_EQ(job.FindCondition("Prepared")->reason, "Hang");
  EXPECT_EQ(job.FindCondition("Prepared")->message,
            "rank 0 on worker c: has not attached to its daemon 21s after its start");
}

}  // namespace
}  // namespace stretto::coordinator::testing
