// SPDX-License-Identifier: Apache-2.0

// Rules of the core that need more than a transcript: exact times, exact records, views, replays.

#include "coordinator/core/core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/core/scene.h"

namespace stretto::coordinator::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two workers of one slot each, one gang of two across them, RUNNING.
void StartAcross(Scene& scene) {
  scene.Register("a", 1);
  scene.Register("b", 1);
  scene.Submit("j", 2);
  scene.Prepare("j");
  ASSERT_EQ(scene.job("j").state, JobState::kRunning);
  scene.TakeLog();
}

// A worker that came to the wrong coordinator, or to one that lost its state, keeps what it runs.
TEST(RegisterTest, AWorkerOfAnotherClusterIsRefusedAndNothingIsSent) {
  Snapshot snapshot;
  snapshot.cluster_id = "here";
  snapshot.epoch.last = Epoch(5);
  Core core = *Core::Restore(snapshot, {}, absl::UnixEpoch());
  WorkerRegistered event;
  event.id = "a";
  event.session = 1;
  event.devices.emplace_back().kind = 1;
  HeldRank& held = event.held.emplace_back();
  held.job_uid = "uid";
  held.epoch = Epoch(9);
  held.alive = true;
  event.cluster_id = "elsewhere";
  Effects effects = core.Apply(event, Moment());
  EXPECT_EQ(effects.status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(effects.status.message()),
              HasSubstr("worker \"a\" belongs to cluster elsewhere, expected that of this "
                        "coordinator, here"));
  EXPECT_THAT(effects.sends, IsEmpty());
  EXPECT_EQ(core.FindWorker("a"), nullptr);

  event.cluster_id = "here";
  event.newest_epoch = Epoch(6);
  effects = core.Apply(event, Moment());
  EXPECT_EQ(effects.status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(effects.status.message()),
              HasSubstr("has had an assignment of epoch 6 of cluster here, expected at most 5"));
  EXPECT_EQ(core.FindWorker("a"), nullptr);

  for (const char* known : {"here", ""}) {  // or it has no cluster yet
    event.cluster_id = known;
    event.newest_epoch = Epoch(known[0] == '\0' ? 0 : 5);
    ++event.session;
    effects = core.Apply(event, Moment());
    ASSERT_TRUE(effects.status.ok()) << effects.status;
    const auto* registered = std::get_if<SendRegistered>(&effects.sends.back().message);
    ASSERT_NE(registered, nullptr);
    EXPECT_EQ(registered->cluster_id, "here");
  }
}

TEST(CreateJobTest, ValidateOnlyChecksAndStoresNothing) {
  Scene scene;
  scene.Register("a", 1);
  scene.TakeLog();
  EXPECT_TRUE(scene.Submit("j", 1, "r", "b", /*validate_only=*/true).status.ok());
  EXPECT_THAT(scene.TakeLog(), ElementsAre("returns j"));
  EXPECT_EQ(scene.core().FindJob("j"), nullptr);
  const Result refused = scene.Submit("j", 2, "r", "b", /*validate_only=*/true);
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(refused.status.message(), "job \"j\" needs 2 slots; this cluster has 1 on 1 worker");
}

TEST(CreateJobTest, PlaceNowTellsWhatWouldHappenAndChangesNothing) {
  Scene scene;
  scene.Register("a", 2);
  scene.Register("b", 1);
  scene.TakeLog();
  JobRecord one, three;
  one.id = three.id = "trial";
  one.device_kind = three.device_kind = 1;
  three.gang = {.stages = {{.blocks = 3}}};
  Placement now = scene.core().PlaceNow(three);
  ASSERT_EQ(now.placed.size(), 1u);
  EXPECT_THAT(now.placed[0].ranks,
              ElementsAre(RankSlot{"a", 0}, RankSlot{"a", 1}, RankSlot{"b", 0}));
  EXPECT_THAT(now.unplaced, IsEmpty());

  scene.Submit("j", 2);
  scene.Submit("k", 2);
  const auto jobs = [&] {
    const Core core = scene.core();  // a copy, which owns the records
    std::vector<std::pair<std::string, JobState>> found;
    for (const JobRecord* job : core.Jobs()) found.emplace_back(job->id, job->state);
    return found;
  };
  const auto before = jobs();
  scene.TakeLog();
  now = scene.core().PlaceNow(one);
  EXPECT_THAT(now.placed, IsEmpty());
  ASSERT_EQ(now.unplaced.size(), 1u);
  EXPECT_EQ(now.unplaced[0].job_id, "trial");
  EXPECT_EQ(now.unplaced[0].reason, "BehindEarlierJob");
  EXPECT_EQ(now.unplaced[0].message,
            "waits behind job k, which needs 2 slots; 1 free of 3 on 2 workers; place 2 in the "
            "queue");
  EXPECT_THAT(scene.TakeLog(), IsEmpty());
  EXPECT_EQ(jobs(), before);
  EXPECT_EQ(scene.core().FreeSlots("b"), 1);
}

TEST(CreateJobTest, SlotsOfALostWorkerStillCount) {
  Scene scene;
  scene.Register("a", 2);
  scene.Disconnect("a");
  EXPECT_TRUE(scene.Submit("j", 2).status.ok());
  EXPECT_EQ(scene.job("j").state, JobState::kPending);
  EXPECT_EQ(scene.Submit("k", 3).status.code(), absl::StatusCode::kFailedPrecondition);
}

// The time of arrival is used in place of one that cannot be right.
TEST(RunningTest, ClocksOfNodesMayBeAnHourApart) {
  for (const absl::Duration apart : {absl::Hours(1), -absl::Hours(1)}) {
    Scene scene;
    StartAcross(scene);
    const auto there = [&] { return scene.now() + apart; };
    scene.Advance(absl::Seconds(3), {"a", "b"});
    scene.Report("j", 0, FirstOperationDone{there()});
    scene.Advance(absl::Seconds(2), {"a", "b"});
    scene.Report("j", 0, StepDone{1, there()});
    const JobRecord before = scene.job("j");
    EXPECT_EQ(before.submit_to_first_operation, absl::Seconds(3));
    EXPECT_EQ(before.submit_to_first_step, absl::Seconds(5));
    // Repeated, they have no time.
    scene.Restart();
    scene.Advance(absl::Seconds(4));
    scene.Register("a", 1, {{.job = "j", .rank = 0, .last_sequence = 3}});
    scene.Replay("j", 0);
    EXPECT_EQ(scene.job("j").submit_to_first_step, absl::Seconds(5));
    RankExited exit = Failed(1, "Crashed");
    exit.time = there();
    scene.Report("j", 0, exit);
    EXPECT_EQ(scene.job("j").first_failure->time, scene.now());
  }
}

TEST(RunningTest, TimesRunFromCreateToTheLatestRank) {
  Scene scene;
  StartAcross(scene);
  const absl::Time create = scene.job("j").create_time;
  scene.Advance(absl::Seconds(9), {"a", "b"});
  scene.Report("j", 0, FirstOperationDone{create + absl::Seconds(3)});
  scene.Report("j", 1, FirstOperationDone{create + absl::Seconds(2)});
  scene.Report("j", 0, StepDone{1, create + absl::Seconds(4)});
  scene.Report("j", 1, StepDone{1, create + absl::Seconds(5)});
  scene.Report("j", 0, StepDone{2, create + absl::Seconds(9)});
  EXPECT_EQ(scene.job("j").submit_to_first_operation, absl::Seconds(3));
  EXPECT_EQ(scene.job("j").submit_to_first_step, absl::Seconds(5));
  EXPECT_EQ(scene.job("j").steps_done(), 1);
}

TEST(RunningTest, StepsAreNeverStored) {
  Scene scene;
  StartAcross(scene);
  scene.Report("j", 0, StepDone{1, scene.now()});
  scene.TakeLog();
  for (int64_t step = 2; step < 10; ++step) scene.Report("j", 0, StepDone{step, scene.now()});
  for (const std::string& line : scene.TakeLog()) EXPECT_THAT(line, HasSubstr("send a ack"));
}

TEST(CheckpointTest, FailureIsAConditionAndKeepsTheLastGoodOne) {
  Scene scene;
  StartAcross(scene);
  scene.Report("j", 0, CheckpointDone{.step = 10, .name = "step-10", .ok = true, .message = ""});
  scene.Report("j", 0, CheckpointDone{.step = 20, .name = "", .ok = false, .message = "disk full"});
  const JobRecord& job = scene.job("j");
  EXPECT_EQ(job.last_checkpoint, "step-10");
  EXPECT_EQ(job.FindCondition("Checkpointed")->status, ConditionStatus::kFalse);
  EXPECT_EQ(job.FindCondition("Checkpointed")->reason, "CheckpointFailed");
  EXPECT_EQ(job.FindCondition("Checkpointed")->message, "step 20: disk full");
}

TEST(CheckpointTest, TheBestIsWhatTheNewestReportSays) {
  Scene scene;
  StartAcross(scene);
  const auto report = [&](int64_t step, const std::string& best) {
    scene.Report("j", 0,
                 CheckpointDone{.step = step,
                                .name = absl::StrCat("step-", step),
                                .ok = true,
                                .message = "",
                                .best = best});
    return scene.job("j").best_checkpoint;
  };
  EXPECT_EQ(report(10, ""), "");
  EXPECT_EQ(report(20, "step-20"), "step-20");
  EXPECT_EQ(report(30, "step-20"), "step-20");
  EXPECT_EQ(report(20, "step-10"), "step-20");  // replayed
}

TEST(FailureTest, FirstFailureKeepsEverythingTheRankSaid) {
  Scene scene;
  StartAcross(scene);
  RankExited exit = Failed(7, "NonFiniteLoss");
  exit.message = "loss is nan";
  exit.step = 12;
  exit.phase = "backward";
  exit.last_operation = "18 comm.tp all_reduce";
  scene.Exit("j", 1, exit);
  scene.Exit("j", 0, Failed(1, "Broken"));  // later: not the first
  const JobRecord& job = scene.job("j");
  ASSERT_TRUE(job.first_failure.has_value());
  EXPECT_EQ(*job.first_failure,
            (FirstFailure{.rank = 1,
                          .worker = "b",
                          .exit_code = 7,
                          .signal = 0,
                          .reason = "NonFiniteLoss",
                          .message = "exited with code 7 at step 12 in backward: loss is nan",
                          .step = 12,
                          .phase = "backward",
                          .last_operation = "18 comm.tp all_reduce",
                          .time = scene.now()}));
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.FindCondition("Succeeded")->reason, "NonFiniteLoss");
}

TEST(FailureTest, PeerLostIsTheCauseOnlyWhenNothingBetterIsKnown) {
  Scene scene;
  StartAcross(scene);
  scene.Exit("j", 1, Stopped());
  EXPECT_FALSE(scene.job("j").first_failure.has_value());
  scene.Exit("j", 0, Failed(4, "PeerLost"));
  EXPECT_EQ(scene.job("j").state, JobState::kFailed);
  EXPECT_EQ(scene.job("j").first_failure->rank, 0);
  EXPECT_EQ(scene.job("j").first_failure->reason, "PeerLost");
}

TEST(FailureTest, StoppedByItsDaemonAloneFailsTheJob) {
  Scene scene;
  StartAcross(scene);
  scene.Exit("j", 0, Stopped());
  scene.Exit("j", 1, Stopped());
  EXPECT_EQ(scene.job("j").state, JobState::kFailed);
  EXPECT_EQ(scene.job("j").first_failure->reason, "Stopped");
}

TEST(FailureTest, ExitWithCodeZeroButWithoutCompletionIsAFailure) {
  Scene scene;
  StartAcross(scene);
  scene.Exit("j", 0, Completed());
  scene.Exit("j", 1, Failed(0, "LeaseLost"));
  EXPECT_EQ(scene.job("j").state, JobState::kFailed);
  EXPECT_EQ(scene.job("j").first_failure->reason, "LeaseLost");
}

RankExited StoppedEarly() {
  RankExited exit;
  exit.reason = "EarlyStopped";
  exit.message = "step 8 of 100: held-out loss 2.5, not below 2.25 in 3 evaluations";
  return exit;
}

TEST(EarlyStopTest, AJobThatStopsEarlySucceedsAndSaysWhy) {
  Scene scene;
  StartAcross(scene);
  scene.Exit("j", 0, StoppedEarly());
  EXPECT_EQ(scene.job("j").state, JobState::kRunning);
  scene.Exit("j", 1, StoppedEarly());
  const JobRecord job = scene.job("j");
  EXPECT_EQ(job.state, JobState::kSucceeded);
  EXPECT_FALSE(job.first_failure.has_value());
  EXPECT_EQ(job.FindCondition("Succeeded")->status, ConditionStatus::kTrue);
  EXPECT_EQ(job.FindCondition("Succeeded")->reason, "EarlyStopped");
  EXPECT_EQ(job.FindCondition("Succeeded")->message, StoppedEarly().message);
}

TEST(EarlyStopTest, ARankThatFailsAfterAnEarlyStopFailsTheJob) {
  Scene scene;
  StartAcross(scene);
  scene.Exit("j", 0, StoppedEarly());
  scene.Exit("j", 1, Killed(9));
  EXPECT_EQ(scene.job("j").state, JobState::kFailed);
}

TEST(CancelTest, FailuresAfterACancelDoNotFailTheJob) {
  Scene scene;
  StartAcross(scene);
  scene.Cancel("j");
  scene.Exit("j", 0, Killed(9));
  EXPECT_EQ(scene.job("j").state, JobState::kCancelling);
  scene.Exit("j", 1, Failed(4, "PeerLost"));
  EXPECT_EQ(scene.job("j").state, JobState::kCancelled);
  EXPECT_FALSE(scene.job("j").first_failure.has_value());
}

TEST(CancelTest, OfAFailingJobStillFails) {
  Scene scene;
  StartAcross(scene);
  scene.Exit("j", 0, Killed(9));
  scene.Cancel("j");
  scene.Exit("j", 1, Stopped());
  EXPECT_EQ(scene.job("j").state, JobState::kFailed);
  EXPECT_EQ(scene.job("j").first_failure->signal, 9);
}

TEST(CancelTest, WorkerThatWasAwayIsToldToStopWhenItReturns) {
  Scene scene;
  StartAcross(scene);
  scene.Disconnect("b");
  scene.Cancel("j");
  scene.TakeLog();
  scene.Register("b", 1, {{"j", 1}});
  EXPECT_THAT(scene.TakeLog(), Contains("send b stop j epoch=1 reason=Cancelled grace=10s"));
}

TEST(CancelTest, RankThatNeverStartedIsGoneWhenItsWorkerReturns) {
  Scene scene;
  scene.Register("a", 1);
  scene.Submit("j", 1);
  scene.Disconnect("a");
  scene.Cancel("j");
  EXPECT_EQ(scene.job("j").state, JobState::kCancelling);
  scene.Register("a", 1);
  EXPECT_EQ(scene.job("j").state, JobState::kCancelled);
}

TEST(CancelTest, LostWorkerDoesNotHoldUpACancelForEver) {
  Scene scene;
  StartAcross(scene);
  scene.Cancel("j");
  scene.Disconnect("b");
  scene.Exit("j", 0, Stopped());
  scene.Advance(absl::Seconds(30), {"a"});
  EXPECT_EQ(scene.job("j").state, JobState::kCancelled);
}

TEST(SessionTest, WorkerThatReturnsWithoutItsSlotLosesTheRank) {
  Scene scene;
  scene.Register("a", 2);
  scene.Submit("j", 2);
  scene.Disconnect("a");
  scene.Register("a", 1);
  EXPECT_EQ(scene.job("j").first_failure->reason, "SlotLost");
  EXPECT_EQ(scene.job("j").first_failure->message, "worker a came back without slot 1");
}

TEST(SessionTest, WorkerThatReturnsWithAPreparedRankMissingLosesThoseThatNeverStartedToo) {
  Scene scene;
  scene.Register("a", 2);
  scene.Submit("j", 2);
  scene.Report("j", 1, RankPrepared{});
  scene.Disconnect("a");
  scene.Register("a", 2);  // holds neither
  const JobRecord job = scene.job("j");
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.first_failure->rank, 1);
  EXPECT_EQ(job.first_failure->reason, "TrainerLost");
  EXPECT_EQ(scene.core().FreeSlots("a"), 2);
}

TEST(SessionTest, RankHeldByTheWrongWorkerIsEnded) {
  Scene scene;
  StartAcross(scene);
  scene.Disconnect("a");
  scene.TakeLog();
  scene.Register("a", 1, {{"j", 0}, {"j", 1}});
  EXPECT_THAT(scene.TakeLog(),
              Contains("send a registered lease=10s uid-j/0=keep:acked=1 uid-j/1=end"));
}

TEST(ReportTest, OfAnotherWorkersRankIsAborted) {
  Scene scene;
  StartAcross(scene);
  RankReported report = scene.MakeReport("j", 0, StepDone{1, scene.now()}, 2);
  report.rank = Rank::Of(1);
  const Result result = scene.Report(report);
  EXPECT_EQ(result.status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(
      result.status.message(),
      "report 2 of rank 1 of job \"j\" from worker \"a\": this rank was assigned to worker \"b\"");
}

TEST(ReportTest, OfUnknownJobOrRankIsNotFound) {
  Scene scene;
  StartAcross(scene);
  RankReported report = scene.MakeReport("j", 0, StepDone{1, scene.now()}, 2);
  report.rank = Rank::Of(2);
  EXPECT_EQ(scene.Report(report).status.message(),
            "report 2 of rank 2 of job \"j\" from worker \"a\": the job has 2 placed ranks");
  report.job_uid = "other";
  const Result result = scene.Report(report);
  EXPECT_EQ(result.status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(result.status.message(), "worker \"a\" reports rank 2 of an unknown job, uid other");
}

TEST(ReportTest, OfARankCountedAsLostIsAborted) {
  Scene scene;
  StartAcross(scene);
  scene.Disconnect("b");
  scene.Advance(absl::Seconds(30), {"a"});
  scene.Register("b", 1);
  const Result result = scene.Report("j", 1, StepDone{1, scene.now()});
  EXPECT_EQ(result.status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("has been counted as lost"));
}

TEST(ReportTest, ReplayAfterARestartIsFreshButChangesNoRecord) {
  Scene scene;
  StartAcross(scene);
  scene.Report("j", 0, CheckpointDone{.step = 10, .name = "", .ok = false, .message = "disk full"});
  scene.Report("j", 0, CheckpointDone{.step = 20, .name = "step-20", .ok = true, .message = ""});
  scene.Exit("j", 0, Completed());
  scene.Exit("j", 1, Completed());
  const JobRecord before = scene.job("j");
  scene.Restart();
  scene.Register("a", 1, {{"j", 0, /*alive=*/false}});
  scene.TakeLog();

  scene.Replay("j", 0);

  EXPECT_EQ(scene.job("j"), before);
  EXPECT_THAT(scene.TakeLog(),
              ElementsAre("send a ack uid-j/0 sequence=1", "send a ack uid-j/0 sequence=2",
                          "send a ack uid-j/0 sequence=3", "send a ack uid-j/0 sequence=4"));
}

TEST(ReportTest, RepeatedReportIsAcknowledgedButNotFresh) {
  Scene scene;
  StartAcross(scene);
  const RankReported report = scene.MakeReport("j", 0, StepDone{1, scene.now()}, 2);
  EXPECT_TRUE(scene.Report(report).fresh);
  const Result again = scene.Report(report);
  EXPECT_TRUE(again.status.ok());
  EXPECT_FALSE(again.fresh);
}

TEST(ViewTest, SlotsJobsAndAttempts) {
  Scene scene;
  scene.Register("a", 2);
  scene.Submit("j", 1);
  EXPECT_EQ(scene.core().FreeSlots("a"), 1);
  EXPECT_THAT(scene.core().JobsOn("a"), ElementsAre("j"));
  EXPECT_TRUE(scene.core().CheckAttempt("uid-j", Epoch(1)).ok());
  EXPECT_EQ(scene.core().CheckAttempt("uid-j", Epoch(2)).message(),
            "job \"j\": epoch 2 is not the current one, 1");
  EXPECT_EQ(scene.core().CheckAttempt("uid-k", Epoch(1)).code(), absl::StatusCode::kNotFound);
  scene.Complete("j");
  EXPECT_EQ(scene.core().FreeSlots("a"), 2);
  EXPECT_THAT(scene.core().JobsOn("a"), IsEmpty());
  const absl::Status ended = scene.core().CheckAttempt("uid-j", Epoch(1));
  EXPECT_EQ(ended.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ended.message(), "job \"j\" is SUCCEEDED; expected a job that holds slots");
  scene.Disconnect("a");
  EXPECT_EQ(scene.core().FreeSlots("a"), 0);
}

TEST(TimeTest, JumpsOfTheWallClockNeitherEndNorExtendLeases) {
  Scene scene;
  StartAcross(scene);
  scene.JumpWallClock(absl::Seconds(60));
  scene.Advance(absl::Seconds(2), {"a"});
  EXPECT_EQ(scene.job("j").state, JobState::kRunning);
  EXPECT_TRUE(scene.core().FindWorker("b")->ready());
  scene.JumpWallClock(absl::Hours(-1));
  scene.Advance(absl::Seconds(7), {"a"});
  EXPECT_TRUE(scene.core().FindWorker("b")->ready());
  scene.Advance(absl::Seconds(1), {"a"});  // 10 s after it registered
  EXPECT_FALSE(scene.core().FindWorker("b")->ready());
  scene.Advance(absl::Minutes(5), {"a"});
  EXPECT_EQ(scene.job("j").first_failure->reason, "WorkerLost");
  EXPECT_EQ(scene.job("j").first_failure->time, scene.now());  // records show the wall clock
}

TEST(TimeTest, LeaseAndItsRanksNeverEndInOneEvent) {
  Scene scene;
  StartAcross(scene);
  scene.Advance(absl::Hours(1), {"a"});
  EXPECT_FALSE(scene.core().FindWorker("b")->ready());
  EXPECT_EQ(scene.job("j").state, JobState::kRunning);
  EXPECT_FALSE(scene.job("j").first_failure.has_value());
  scene.Advance(absl::ZeroDuration(), {"a"});
  EXPECT_EQ(scene.job("j").first_failure->reason, "WorkerLost");
}

}  // namespace
}  // namespace stretto::coordinator::testing
