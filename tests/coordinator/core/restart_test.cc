// SPDX-License-Identifier: Apache-2.0

// Rules of restarts that need more than a transcript.

#include "coordinator/core/restart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "coordinator/core/queue_view.h"
#include "tests/coordinator/core/scene.h"

namespace stretto::coordinator::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::set<RestartCause> kAllCauses = {RestartCause::kCrash, RestartCause::kNodeLoss,
                                           RestartCause::kHang, RestartCause::kOutOfMemory,
                                           RestartCause::kPreemption};

class RestartTest : public ::testing::Test {
 protected:
  RestartTest() { scene_.policy = {.max = 2, .backoff = absl::Seconds(1), .on = kAllCauses}; }

  // A job of one rank, RUNNING on the only worker.
  void Start() {
    scene_.Register("a", 1);
    scene_.Submit("j", 1);
    scene_.Prepare("j");
    ASSERT_EQ(scene_.job("j").state, JobState::kRunning);
  }
  void Crash() { ASSERT_TRUE(scene_.Exit("j", 0, Killed(9)).status.ok()); }
  void Advance(absl::Duration duration) { scene_.Advance(duration, {"a"}); }
  Condition ConditionOf(const std::string& type) {
    const JobRecord job = scene_.job("j");
    const Condition* condition = job.FindCondition(type);
    return condition == nullptr ? Condition() : *condition;
  }

  Scene scene_;
};

TEST(RestartCauseTest, BadInputIsNoCause) {
  for (const ExitReason reason :
       {ExitReason::kSpecRefused, ExitReason::kDataInvalid, ExitReason::kWeightsInvalid,
        ExitReason::kCheckpointInvalid, ExitReason::kResumeRefused, ExitReason::kNonFiniteGradients,
        ExitReason::kUnknown}) {
    EXPECT_EQ(CauseOf(reason), RestartCause::kNone) << stretto::NameOf(reason);
  }
  EXPECT_EQ(CauseOf(ExitReason::kKilled), RestartCause::kCrash);
  EXPECT_EQ(CauseOf(ExitReason::kWorkerLost), RestartCause::kNodeLoss);
  EXPECT_EQ(CauseOf(ExitReason::kInsufficientMemory), RestartCause::kOutOfMemory);
  EXPECT_EQ(CauseOf(ExitReason::kStopped), RestartCause::kPreemption);
}

TEST_F(RestartTest, BudgetIsCountedAndItsEndIsExplained) {
  Start();
  for (int restart = 1; restart <= 2; ++restart) {
    Crash();
    EXPECT_EQ(scene_.job("j").state, JobState::kPending);
    EXPECT_EQ(scene_.job("j").restarts, restart);
    Advance(absl::Seconds(10));
    EXPECT_EQ(scene_.job("j").attempt, restart + 1);
  }
  Crash();
  EXPECT_EQ(scene_.job("j").state, JobState::kFailed);
  EXPECT_EQ(ConditionOf("Restarting").reason, "BudgetSpent");
  EXPECT_EQ(ConditionOf("Restarting").message, "2 of at most 2 restarts are used");
  EXPECT_EQ(scene_.job("j").attempts.size(), 3u);
}

TEST_F(RestartTest, CauseThatIsNotListedFailsTheJob) {
  scene_.policy->on = {RestartCause::kNodeLoss};
  Start();
  Crash();
  EXPECT_EQ(scene_.job("j").state, JobState::kFailed);
  EXPECT_EQ(ConditionOf("Restarting").message, "cause Crash is not in restart.on");
}

TEST_F(RestartTest, JobWithoutPolicyFailsAsBefore) {
  scene_.policy.reset();
  Start();
  Crash();
  EXPECT_EQ(scene_.job("j").state, JobState::kFailed);
  EXPECT_EQ(ConditionOf("Restarting").type, "");
}

TEST_F(RestartTest, BackoffDoublesWhileNothingIsSavedAndIsBounded) {
  scene_.policy->max = 100;
  scene_.policy->backoff = absl::Seconds(10);
  Start();
  const auto delay = [&] {
    Crash();
    const absl::Duration wait = *scene_.job("j").next_attempt_time - scene_.now();
    Advance(wait);
    return wait;
  };
  EXPECT_EQ(delay(), absl::Seconds(10));
  EXPECT_EQ(delay(), absl::Seconds(20));
  EXPECT_EQ(delay(), absl::Seconds(40));
  scene_.Report("j", 0, CheckpointDone{.step = 3, .name = "step-3", .ok = true, .message = ""});
  EXPECT_EQ(delay(), absl::Seconds(10));
  for (int i = 0; i < 20; ++i) delay();
  EXPECT_EQ(delay(), absl::Minutes(5));
  const JobRecord job = scene_.job("j");
  EXPECT_EQ(job.attempts.size(), JobRecord::kKeptAttempts);
  EXPECT_EQ(job.attempts.back().number, job.attempt);
  EXPECT_EQ(job.attempts.back().from_step, 3);
}

TEST_F(RestartTest, AttemptsHaveTheirTimesCauseAndFailure) {
  Start();
  const absl::Time start = scene_.now();
  scene_.Report("j", 0, StepDone{.step = 7, .end_time = scene_.now()});
  Advance(absl::Seconds(5));
  Crash();
  Advance(absl::Seconds(1));
  const JobRecord job = scene_.job("j");
  ASSERT_EQ(job.attempts.size(), 2u);
  const AttemptRecord& first = job.attempts[0];
  EXPECT_EQ(first.start_time, start);
  EXPECT_EQ(first.end_time, start + absl::Seconds(5));
  EXPECT_EQ(first.steps, 7);
  EXPECT_EQ(first.cause, RestartCause::kCrash);
  EXPECT_EQ(first.first_failure->signal, 9);
  EXPECT_THAT(first.workers, ElementsAre("a"));
  EXPECT_FALSE(job.attempts[1].end_time.has_value());
  EXPECT_GT(job.attempts[1].epoch, first.epoch);
  EXPECT_FALSE(job.first_failure.has_value());
}

TEST_F(RestartTest, StepsCountFromTheCheckpointThatTheNextAttemptContinuesFrom) {
  Start();
  scene_.Report("j", 0, CheckpointDone{.step = 4, .name = "step-4", .ok = true, .message = ""});
  scene_.Report("j", 0, StepDone{.step = 7, .end_time = scene_.now()});
  EXPECT_EQ(scene_.job("j").steps_done(), 7);
  Crash();
  EXPECT_EQ(scene_.job("j").steps_done(), 4);
  Advance(absl::Seconds(1));
  EXPECT_EQ(scene_.job("j").steps_done(), 4);
  scene_.Report("j", 0, StepDone{.step = 5, .end_time = scene_.now()});
  EXPECT_EQ(scene_.job("j").steps_done(), 5);
}

TEST_F(RestartTest, LastExitIsAcknowledgedEvenIfItBeginsTheNextAttempt) {
  scene_.policy->backoff = absl::ZeroDuration();
  Start();
  scene_.TakeLog();
  Crash();
  EXPECT_EQ(scene_.job("j").attempt, 2);
  EXPECT_THAT(scene_.TakeText(), HasSubstr("ack uid-j/0 sequence=2"));
}

TEST_F(RestartTest, RestartThatCannotBeStoredHasNotHappened) {
  Start();
  scene_.store().FailCommit(1);
  EXPECT_FALSE(scene_.Exit("j", 0, Killed(9)).status.ok());
  EXPECT_EQ(scene_.job("j").state, JobState::kRunning);
  EXPECT_EQ(scene_.job("j").restarts, 0);
  EXPECT_FALSE(scene_.job("j").attempts.back().end_time.has_value());
}

// A rank is killed between its last step and its exit. The checkpoint of the last step is whole, so
// the next attempt has nothing to train.
TEST_F(RestartTest, AnAttemptThatFindsTheLastStepSavedSucceedsWithoutAStep) {
  scene_.Register("a", 1);
  scene_.Submit("j", 1);
  scene_.Prepare("j");
  const int64_t steps = scene_.job("j").total_steps;
  for (int64_t step = 1; step <= steps; ++step) {
    scene_.Report("j", 0, StepDone{step, scene_.now()});
  }
  scene_.Report("j", 0, CheckpointDone{.step = steps, .name = "last", .ok = true, .message = ""});
  scene_.Exit("j", 0, Killed(9));
  scene_.Advance(absl::Seconds(5), {"a"});
  ASSERT_EQ(scene_.job("j").attempt, 2);
  scene_.Prepare("j");
  scene_.Exit("j", 0, Completed());
  const JobRecord& job = scene_.job("j");
  EXPECT_EQ(job.state, JobState::kSucceeded);
  EXPECT_EQ(job.restarts, 1);
}

TEST_F(RestartTest, NothingIsPlacedBeforeEveryRankOfTheAttemptIsGone) {
  scene_.Register("a", 2);
  scene_.Register("b", 2);
  scene_.Submit("j", 2);
  scene_.Prepare("j");
  scene_.Exit("j", 1, Killed(9));
  for (int i = 0; i < 10; ++i) scene_.Advance(absl::Seconds(5), {"a", "b"});
  EXPECT_EQ(scene_.job("j").attempt, 1);
  scene_.Exit("j", 0, Stopped());
  scene_.Advance(absl::Seconds(5), {"a", "b"});
  EXPECT_EQ(scene_.job("j").attempt, 2);
}

TEST_F(RestartTest, WaitingJobKeepsItsPlaceButDelaysNobody) {
  scene_.policy->backoff = absl::Seconds(10);
  Start();
  scene_.policy.reset();
  scene_.Submit("k", 1);
  scene_.Submit("l", 1);
  Crash();
  EXPECT_EQ(scene_.job("k").state, JobState::kPreparing);
  Advance(absl::Seconds(10));
  scene_.Complete("k");
  EXPECT_EQ(scene_.job("j").attempt, 2);
  EXPECT_EQ(scene_.job("l").state, JobState::kPending);
}

TEST_F(RestartTest, JobCanBeCancelledWhileItWaits) {
  Start();
  Crash();
  EXPECT_TRUE(scene_.Cancel("j").status.ok());
  EXPECT_EQ(scene_.job("j").state, JobState::kCancelled);
  Advance(absl::Minutes(1));
  EXPECT_EQ(scene_.job("j").attempt, 1);
}

TEST_F(RestartTest, CancelledJobIsNotRestarted) {
  Start();
  scene_.Cancel("j");
  Crash();
  EXPECT_EQ(scene_.job("j").state, JobState::kCancelled);
}

TEST_F(RestartTest, ResumedJobHasItsBudgetAgain) {
  scene_.policy->max = 0;
  Start();
  Crash();
  EXPECT_EQ(scene_.job("j").state, JobState::kFailed);
  EXPECT_TRUE(scene_.Resume("j").status.ok());
  const JobRecord job = scene_.job("j");
  EXPECT_EQ(job.state, JobState::kPreparing);
  EXPECT_EQ(job.attempt, 2);
  EXPECT_FALSE(job.end_time.has_value());
  EXPECT_EQ(ConditionOf("Succeeded").status, ConditionStatus::kUnknown);
}

TEST_F(RestartTest, ResumeThatCannotBeStoredLeavesTheJobEnded) {
  scene_.policy.reset();
  Start();
  Crash();
  scene_.store().FailCommit(1);
  EXPECT_FALSE(scene_.Resume("j").status.ok());
  EXPECT_EQ(scene_.job("j").state, JobState::kFailed);
  Advance(absl::Seconds(5));
  EXPECT_EQ(scene_.job("j").state, JobState::kFailed);
}

TEST_F(RestartTest, SuspendedJobThatCompletesMeanwhileHasSucceeded) {
  Start();
  scene_.Suspend("j");
  EXPECT_EQ(scene_.job("j").state, JobState::kSuspending);
  scene_.Complete("j");
  EXPECT_EQ(scene_.job("j").state, JobState::kSucceeded);
}

TEST_F(RestartTest, DrainLeavesJobsWithoutPolicyAlone) {
  scene_.policy.reset();
  Start();
  scene_.Register("b", 1);
  scene_.TakeLog();
  scene_.Cordon("a", /*drain=*/true);
  EXPECT_EQ(scene_.job("j").state, JobState::kRunning);
  EXPECT_EQ(scene_.job("j").stop_reason, "");
}

// Three jobs fail because the machine of worker a loses its trainers.
TEST_F(RestartTest, DrainOfAWorkerThatNeverStartedTheRanksIsAPreemption) {
  scene_.Register("a", 1);
  scene_.Submit("j", 1);
  scene_.Disconnect("a");
  scene_.Cordon("a", /*drain=*/true);
  scene_.Register("a", 1);  // without the rank
  EXPECT_EQ(scene_.job("j").state, JobState::kPending);
  EXPECT_EQ(scene_.job("j").attempts.back().cause, RestartCause::kPreemption);
}

TEST_F(RestartTest, CancelledJobOfADrainedWorkerIsCancelled) {
  scene_.Register("a", 2);
  scene_.Submit("j", 2);
  scene_.Prepare("j");
  scene_.Cordon("a", /*drain=*/true);
  EXPECT_EQ(ConditionOf("Running").status, ConditionStatus::kFalse);
  RankExited stopped;
  stopped.reason = "Stopped";
  scene_.Exit("j", 0, stopped);
  scene_.Cancel("j");
  scene_.Exit("j", 1, stopped);
  EXPECT_EQ(scene_.job("j").state, JobState::kCancelled);
}

TEST_F(RestartTest, DrainIsNoNodeLossIfAPeerEndsFirst) {
  scene_.policy->on = {RestartCause::kPreemption};
  scene_.Register("a", 2);
  scene_.Submit("j", 2);
  scene_.Prepare("j");
  scene_.Cordon("a", /*drain=*/true);
  RankExited ended;
  ended.reason = "PeerLost";
  scene_.Exit("j", 0, ended);
  ended.reason = "Stopped";
  scene_.Exit("j", 1, ended);
  EXPECT_EQ(scene_.job("j").state, JobState::kPending);
}

TEST_F(RestartTest, CoordinatorThatRestartsWaitsForTheWholeDelay) {
  scene_.policy->backoff = absl::Seconds(60);
  Start();
  Crash();
  scene_.Restart();
  scene_.Register("a", 1);
  Advance(absl::Seconds(1));
  EXPECT_EQ(scene_.job("j").state, JobState::kPending);
  for (int i = 0; i < 70; ++i) Advance(absl::Seconds(1));
  EXPECT_EQ(scene_.job("j").state, JobState::kPreparing);
}

// Of two jobs on a lost worker, one has room on the spare one. The other waits for contact.
TEST(LostWorkerTest, NoMoreJobsAreGivenUpThanHaveRoomElsewhere) {
  Scene scene;
  scene.Register("a", 2);
  scene.policy = {.max = 3, .backoff = absl::ZeroDuration(), .on = {RestartCause::kNodeLoss}};
  for (const char* job : {"j", "k"}) {
    scene.Submit(job, 1);
    scene.Prepare(job);
  }
  scene.Register("b", 1);
  scene.Disconnect("a");
  for (int i = 0; i < 4; ++i) scene.Advance(absl::Seconds(15), {"b"});
  EXPECT_EQ(scene.job("j").attempt, 2);
  EXPECT_EQ(scene.job("k").attempt, 1);
  ASSERT_EQ(scene.job("k").state, JobState::kRunning);
  EXPECT_EQ(scene.job("k").FindCondition("WorkersReachable")->status, ConditionStatus::kFalse);
  scene.Register("a", 2, {{"j", 0, true, 1}, {"k", 0}});
  EXPECT_EQ(scene.job("k").FindCondition("WorkersReachable")->status, ConditionStatus::kTrue);
  EXPECT_EQ(scene.job("k").attempt, 1);
}

TEST(QuarantineTest, AllJobsOfALostWorkerAreOneFaultAndAreLostTogether) {
  Scene scene;
  scene.Register("a", 3);
  for (const char* job : {"j", "k", "l"}) {
    scene.Submit(job, 1);
    scene.Prepare(job);
  }
  scene.Disconnect("a");
  scene.Advance(absl::Minutes(6));
  for (const char* job : {"j", "k", "l"}) EXPECT_EQ(scene.job(job).state, JobState::kFailed);
  EXPECT_EQ(scene.core().FindWorker("a")->record.cordon, "");
}

TEST(QuarantineTest, WorkerWhoseMachineFailsRepeatedlyTakesNoMoreWork) {
  Scene scene;
  scene.Register("a", 1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(scene.core().FindWorker("a")->record.cordon, "");
    const std::string job = absl::StrCat("j", i);
    scene.Submit(job, 1);
    scene.Prepare(job);
    scene.Disconnect("a");
    scene.Register("a", 1);  // without the rank
    EXPECT_EQ(scene.job(job).state, JobState::kFailed);
    scene.Advance(absl::Minutes(1), {"a"});
  }
  const std::string cordon = scene.core().FindWorker("a")->record.cordon;
  EXPECT_EQ(cordon, "quarantined: 3 failures within 1h, the last of job j2: TrainerLost");
  scene.Submit("next", 1);
  EXPECT_EQ(scene.job("next").state, JobState::kPending);
  EXPECT_THAT(QueueView(scene.core()).Shown(scene.job("next")).FindCondition("Scheduled")->message,
              HasSubstr("1 cordoned"));
  scene.Uncordon("a");
  EXPECT_EQ(scene.job("next").state, JobState::kPreparing);
  EXPECT_THAT(scene.core().FindWorker("a")->record.faults, IsEmpty());
}

}  // namespace
}  // namespace stretto::coordinator::testing
