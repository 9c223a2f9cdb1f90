// SPDX-License-Identifier: Apache-2.0

// Runs that lost a worker and could start elsewhere, beside jobs that wait.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/coordinator/core/scene.h"

namespace stretto::coordinator::testing {
namespace {

using ::testing::HasSubstr;

class MoveTest : public ::testing::Test {
 protected:
  // A run of two ranks on a and b, which nobody preempts, and a slot on c.
  void StartRun(absl::Duration backoff, const std::string& project = "default") {
    scene_ = std::make_unique<Scene>(options_);
    scene_->project = project;
    for (const char* worker : {"a", "b", "c"}) scene_->Register(worker, 1);
    scene_->policy = RestartPolicy{
        .max = 9, .backoff = backoff, .on = {RestartCause::kNodeLoss, RestartCause::kCrash}};
    scene_->saves = false;
    scene_->Submit("run", 2);
    scene_->policy.reset();
    scene_->Prepare("run");
  }
  // Longer than the lease and the patience with a lost rank, shorter than that with a lost run.
  // Ranks that are stopped then end, and a backoff passes.
  void Lose(const std::vector<std::string>& lost, const std::vector<std::string>& alive,
            const std::vector<std::string>& runs = {"run"}) {
    for (const std::string& worker : lost) scene_->Disconnect(worker);
    const auto pass = [&](int seconds) {
      for (int i = 0; i < seconds; ++i) scene_->Advance(absl::Seconds(1), alive);
    };
    pass(60);
    for (const std::string& run : runs) {
      if (!scene_->job(run).stop_reason.empty()) scene_->Exit(run, 0, Stopped());
    }
    pass(15);
  }
  void LoseB() { Lose({"b"}, {"a", "c"}); }
  // Rank 0 reports each second, if it makes steps.
  void PassSeconds(int seconds, bool steps = false) {
    for (int i = 0; i < seconds; ++i) {
      if (steps) Step(0);
      scene_->Advance(absl::Seconds(1), {"a", "c"});
    }
  }
  void Step(double seconds) {
    scene_->Report("run", 0, StepDone{++step_, scene_->now(), {.wall = seconds}});
  }
  std::string Failure() {
    const JobRecord run = scene_->job("run");
    return run.first_failure.has_value() ? run.first_failure->message : "none";
  }
  bool IsGivenUp() { return scene_->job("run").ranks.at(1).state == RankState::kLost; }
  // Where it runs, or that it waits for contact.
  std::string Run() {
    const JobRecord run = scene_->job("run");
    const Condition* reachable = run.FindCondition("WorkersReachable");
    if (reachable != nullptr && reachable->status == ConditionStatus::kFalse &&
        reachable->reason == "WorkerLost") {
      return "waits for contact";
    }
    std::string workers = JobStateName(run.state);
    for (const RankRecord& rank : run.ranks) workers += " " + rank.worker;
    return workers;
  }

  CoreOptions options_;
  std::unique_ptr<Scene> scene_;
  int64_t step_ = 0;
};

TEST_F(MoveTest, RunMovesToASpareSlot) {
  StartRun(absl::Seconds(10));
  LoseB();
  EXPECT_EQ(Run(), "PREPARING a c");
}

// It would end, and wait behind a job that had no room before.
TEST_F(MoveTest, RunIsNotGivenUpForRoomThatAJobAheadOfItTakes) {
  StartRun(absl::ZeroDuration());
  scene_->priority = 5;
  scene_->Submit("urgent", 2);
  LoseB();
  EXPECT_EQ(Run(), "waits for contact");
  EXPECT_EQ(scene_->job("urgent").state, JobState::kPending);
  scene_->Register("b", 1, {{.job = "run", .rank = 1}});
  EXPECT_EQ(Run(), "RUNNING a b");
}

TEST_F(MoveTest, RunIsNotGivenUpForRoomThatALaterJobTakesDuringItsBackoff) {
  StartRun(absl::Seconds(10));
  scene_->Submit("later", 2);
  LoseB();
  EXPECT_EQ(Run(), "waits for contact");
  EXPECT_EQ(scene_->job("later").state, JobState::kPending);
}

// There is a queue in every busy cluster.
TEST_F(MoveTest, RunMovesBesideALaterJobThatDoesNotFit) {
  StartRun(absl::Seconds(10));
  scene_->Submit("later", 3);
  LoseB();
  EXPECT_EQ(Run(), "PREPARING a c");
  EXPECT_EQ(scene_->job("later").state, JobState::kPending);
}

TEST_F(MoveTest, RunWithoutABackoffHasItsPlaceBeforeALaterJob) {
  StartRun(absl::ZeroDuration());
  scene_->Submit("later", 2);
  LoseB();
  EXPECT_EQ(Run(), "PREPARING a c");
  EXPECT_EQ(scene_->job("later").state, JobState::kPending);
}

// Two runs want the same slot, and the first in the order of the queue has it.
TEST_F(MoveTest, RoomIsGivenOnce) {
  StartRun(absl::ZeroDuration());
  scene_->Register("d", 1);
  scene_->Register("e", 1);
  scene_->policy = RestartPolicy{.max = 9, .backoff = {}, .on = {RestartCause::kNodeLoss}};
  scene_->priority = 5;
  scene_->Submit("more", 2);  // on c and d
  scene_->Prepare("more");
  ASSERT_EQ(scene_->job("more").ranks[0].worker, "c");
  Lose({"b", "d"}, {"a", "c", "e"}, {"run", "more"});
  EXPECT_EQ(Run(), "waits for contact");
  EXPECT_EQ(scene_->job("more").state, JobState::kPreparing);
  EXPECT_EQ(scene_->job("more").ranks[1].worker, "e");
}

// The devices that it frees would go to a job of its project.
TEST_F(MoveTest, RunIsNotGivenUpForDevicesThatItsProjectWaitsFor) {
  options_.quotas = {{"speech", {.devices = 2}}, {"default", {}}};
  StartRun(absl::ZeroDuration(), "speech");
  scene_->priority = 5;
  scene_->Submit("urgent", 1);
  EXPECT_THAT(scene_->Why("urgent"), HasSubstr("OverQuota"));
  LoseB();
  EXPECT_EQ(Run(), "waits for contact");
}

// 10 s for the lease and 5 s.
TEST_F(MoveTest, RunWithoutStepsMovesSoonAfterTheLease) {
  StartRun(absl::ZeroDuration());
  PassSeconds(1, /*steps=*/true);
  scene_->Heartbeat("b");
  scene_->Disconnect("b");
  PassSeconds(14);
  EXPECT_FALSE(IsGivenUp());
  PassSeconds(1);
  EXPECT_TRUE(IsGivenUp());
  EXPECT_EQ(Failure(), "worker b did not come back within 5s after its lease ended");
}

// Rank 0, which is in contact, can make no step without rank 1.
TEST_F(MoveTest, RunThatMakesStepsIsLeftWhereItIs) {
  StartRun(absl::ZeroDuration());
  scene_->Disconnect("b");
  PassSeconds(60, /*steps=*/true);
  EXPECT_EQ(Run(), "waits for contact");
  PassSeconds(3);
  EXPECT_EQ(Run(), "waits for contact");
  PassSeconds(1);
  EXPECT_TRUE(IsGivenUp());
  EXPECT_EQ(Failure(), "worker b did not come back within 5s after the next step was due");
}

TEST_F(MoveTest, RunThatMakesStepsLeavesRoomElsewhereToAnother) {
  StartRun(absl::ZeroDuration());
  scene_->Register("d", 1);
  scene_->policy = RestartPolicy{.max = 9, .backoff = {}, .on = {RestartCause::kNodeLoss}};
  scene_->saves = true;
  scene_->Submit("more", 1);  // on c
  scene_->Prepare("more");
  ASSERT_EQ(scene_->job("more").ranks[0].worker, "c");
  scene_->Disconnect("b");
  scene_->Disconnect("c");
  for (int i = 0; i < 20; ++i) {
    Step(0);
    scene_->Advance(absl::Seconds(1), {"a", "d"});
  }
  EXPECT_EQ(Run(), "waits for contact");
  EXPECT_EQ(scene_->job("more").ranks[0].worker, "d");
}

// A slow step is not late. But after a lease, nobody waits for it beside the lost rank.
TEST_F(MoveTest, RunIsLeftWhereItIsUntilItsNextStepIsDue) {
  for (const double seconds : {7.0, 1e9}) {
    SCOPED_TRACE(seconds);
    StartRun(absl::ZeroDuration());
    scene_->Disconnect("b");
    PassSeconds(9);
    Step(seconds);
    PassSeconds(static_cast<int>(std::min(seconds, 10.0)) + 4);
    EXPECT_FALSE(IsGivenUp());
    PassSeconds(1);
    EXPECT_TRUE(IsGivenUp());
  }
}

TEST_F(MoveTest, RunThatMakesStepsIsGivenUpInTheEnd) {
  options_.lost_run_timeout = absl::Seconds(40);
  StartRun(absl::ZeroDuration());
  scene_->Disconnect("b");
  PassSeconds(49, /*steps=*/true);
  EXPECT_FALSE(IsGivenUp());
  PassSeconds(1, /*steps=*/true);
  EXPECT_TRUE(IsGivenUp());
  EXPECT_EQ(Failure(), "worker b did not come back within 40s after its lease ended");
}

// Room for both ranks is on c and d, and none of the run is in contact any more.
class UnfencedTest : public MoveTest {
 protected:
  void SetUp() override {
    options_.lost_run_timeout = absl::Seconds(40);
    StartRun(absl::ZeroDuration());  // saves nothing
    scene_->Register("d", 1);
  }
  void PassAlone(int seconds, const std::vector<std::string>& alive = {"c", "d"}) {
    for (int i = 0; i < seconds; ++i) scene_->Advance(absl::Seconds(1), alive);
  }
};

// No checkpoint would be refused, so both attempts would train to their end.
TEST_F(UnfencedTest, RunThatSavesNothingMovesOnlyWhenItsOwnTimeHasEnded) {
  scene_->Disconnect("a");
  scene_->Disconnect("b");
  PassAlone(49);
  EXPECT_EQ(Run(), "waits for contact");
  PassAlone(1);
  EXPECT_EQ(Run(), "PREPARING c d");
}

TEST_F(UnfencedTest, RunOfWhichARankIsInContactMovesSoon) {
  scene_->Disconnect("b");
  PassAlone(15, {"a", "c", "d"});
  EXPECT_TRUE(IsGivenUp());
  scene_->Exit("run", 0, Stopped());
  EXPECT_EQ(Run(), "PREPARING a c");
}

// The stop that its other rank ends by does not reach it, because it is cut off by then.
TEST_F(UnfencedTest, RunWhoseLastRankIsCutOffBeforeItIsStoppedKeepsItsTime) {
  scene_->Disconnect("b");
  PassAlone(6, {"a", "c", "d"});
  PassAlone(9);
  EXPECT_TRUE(IsGivenUp());
  EXPECT_EQ(scene_->job("run").stop_reason, "WorkerLost");
  scene_->Disconnect("a");
  PassAlone(34);
  EXPECT_EQ(scene_->job("run").ranks.at(0).state, RankState::kPrepared);
  PassAlone(10);
  EXPECT_EQ(Run(), "PREPARING c d");
}

TEST_F(UnfencedTest, RunThatSavesMovesAfterItsLease) {
  scene_->Complete("run");
  scene_->policy = RestartPolicy{.max = 9, .backoff = {}, .on = {RestartCause::kNodeLoss}};
  scene_->saves = true;
  scene_->Submit("saved", 2);
  scene_->Prepare("saved");
  scene_->Disconnect("a");
  scene_->Disconnect("b");
  PassAlone(15);
  EXPECT_EQ(scene_->job("saved").ranks.at(0).worker, "c");
}

// Its ranks in contact save and end, and need nothing more of the others.
TEST_F(MoveTest, RunThatIsToldToStopIsNotLeftForItsSteps) {
  StartRun(absl::ZeroDuration());
  scene_->Disconnect("b");
  PassSeconds(12, /*steps=*/true);
  scene_->Cancel("run");
  PassSeconds(2, /*steps=*/true);
  EXPECT_FALSE(IsGivenUp());
  PassSeconds(1, /*steps=*/true);
  EXPECT_TRUE(IsGivenUp());
  EXPECT_EQ(scene_->job("run").state, JobState::kCancelling);
}

// Neither what a rank reports again to a coordinator that has restarted, nor what it reported in an
// earlier attempt, says that its peers are alive now.
TEST_F(MoveTest, StepsThatAreReportedAgainProveNothing) {
  StartRun(absl::ZeroDuration());
  PassSeconds(3, /*steps=*/true);
  scene_->Restart();
  scene_->Register("a", 1, {{.job = "run", .rank = 0, .last_sequence = 1 + step_}});
  scene_->Register("c", 1);
  PassSeconds(13);
  scene_->Replay("run", 0);
  PassSeconds(1);
  EXPECT_FALSE(IsGivenUp()) << "a worker has a lease in which to come back to a new coordinator";
  PassSeconds(1);
  EXPECT_TRUE(IsGivenUp());
}

TEST_F(MoveTest, StepsOfAnEarlierAttemptProveNothing) {
  StartRun(absl::ZeroDuration());
  PassSeconds(8);
  Step(10);
  scene_->Exit("run", 0, Killed(9));
  scene_->Exit("run", 1, Stopped());
  scene_->Prepare("run");
  ASSERT_EQ(Run(), "RUNNING a b");
  ASSERT_EQ(scene_->job("run").attempt, 2);
  scene_->Disconnect("b");
  PassSeconds(6);
  EXPECT_FALSE(IsGivenUp());
  PassSeconds(1);
  EXPECT_TRUE(IsGivenUp());
}

}  // namespace
}  // namespace stretto::coordinator::testing
