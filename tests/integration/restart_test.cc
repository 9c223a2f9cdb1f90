// SPDX-License-Identifier: Apache-2.0

// Jobs that continue by themselves after a failure, and those that people suspend and move.

#include <signal.h>

#include "absl/strings/str_cat.h"
#include "tests/integration/cluster.h"

namespace stretto::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class RestartTest : public ClusterTest {
 protected:
  static JobFile Job12(const std::string& name, const std::string& restart = "") {
    return {.name = name,
            .steps = 12,
            .more = absl::StrCat(kSlow, "checkpoint: {interval_steps: 4}\n", restart)};
  }
  void SubmitAndAwait(const JobFile& job, int step) {
    ASSERT_EQ(Stretto(Submit(job, {})).code, 0);
    AwaitStep(job.name, step);
  }
  // That a job trained as if nothing had happened.
  void ExpectUndisturbed(const std::string& name, const JobFile& calm) {
    RunJob(calm);
    EXPECT_EQ(NumbersOf(Steps(name)), Range(1, 12));
    EXPECT_EQ(Losses(name), Losses(calm.name));
  }
};

TEST_F(RestartTest, KilledTrainerCostsTheStepsSinceTheCheckpointAndNoBit) {
  StartCluster();
  SubmitAndAwait(Job12("killed", "restart: {max: 2, backoff: 0.1}\n"), 6);
  const auto logs = StartStretto({"job", "logs", "killed", "-f", "--rank", "0"});
  ASSERT_EQ(kill(TrainerPid("killed", 1), SIGKILL), 0);
  const Json job = AwaitState("killed", "succeeded");
  EXPECT_EQ(job["attempt"], 2);
  EXPECT_EQ(job["restarts"], 1);
  ASSERT_EQ(job["attempts"].size(), 2u) << job["attempts"];
  const Json& first = job["attempts"][0];
  EXPECT_EQ(first["cause"], "crash");
  EXPECT_EQ(first["first_failure"]["rank"], 1);
  EXPECT_EQ(first["first_failure"]["signal"], SIGKILL);
  EXPECT_GT(Int(job["attempts"][1]["epoch"]), Int(first["epoch"]));
  EXPECT_EQ(ConditionOf(job, "Restarting")["reason"], "Restarted");
  EXPECT_FALSE(job.contains("first_failure"));
  EXPECT_THAT(ReadRun("killed", 0, "trainer.log"), HasSubstr("resumed folder="));
  EXPECT_THAT(Stretto({"job", "describe", "killed"}).out, HasSubstr("1 of at most 2 restarts"));
  EXPECT_EQ(logs->Wait(), 0);
  EXPECT_THAT(logs->out(), HasSubstr("attempt=2"));
  const std::vector<Json> steps = Steps("killed");
  EXPECT_EQ(steps.front()["attempt"], 1);
  EXPECT_EQ(steps.back()["attempt"], 2);
  const std::string metrics = Metrics(metrics_port_);
  EXPECT_THAT(metrics, HasSubstr("stretto_job_restarts_total{cause=\"Crash\"} 1"));
  EXPECT_THAT(metrics, HasSubstr("stretto_job_restart_seconds_count 1"));
  ExpectUndisturbed("killed", Job12("calm"));
}

TEST_F(RestartTest, JobOfALostWorkerContinuesOnASpareOne) {
  StartCoordinator({"--lease", "1", "--lost-rank-timeout", "4"});
  for (const char* name : {"node-a", "node-b", "node-c"}) StartWorker(name, 1, {"--lease", "2"});
  SubmitAndAwait(Job12("moved", absl::StrCat(kSplit, "restart: {backoff: 0}\n")), 6);
  const pid_t trainer = TrainerPid("moved", 1);
  worker("node-b").Kill();
  ASSERT_EQ(kill(trainer, SIGKILL), 0);
  const Json job = AwaitState("moved", "succeeded");
  ASSERT_EQ(job["attempts"].size(), 2u) << job["attempts"];
  EXPECT_EQ(job["attempts"][0]["cause"], "node_loss") << job["attempts"];
  EXPECT_EQ(job["attempts"][1]["workers"], Json({"workers/node-a", "workers/node-c"}));
  ExpectUndisturbed("moved", Job12("calm", kSplit));
}

// Nowhere is room for two ranks any more.
TEST_F(RestartTest, JobOfALostWorkerContinuesOnTheOtherOneInASmallerLayout) {
  StartCoordinator({"--lease", "1", "--lost-rank-timeout", "4"});
  for (const char* name : {"node-a", "node-b"}) StartWorker(name, 1, {"--lease", "2"});
  SubmitAndAwait(Job12("shrunk", absl::StrCat(kSplit,
                                              "restart: {backoff: 0, layouts: [{tp_size: 4},"
                                              " {tp_size: 1}]}\n")),
                 6);
  EXPECT_EQ(ConditionOf(Job("shrunk"), "LayoutsFit")["reason"], "NotEnoughSlots");
  const pid_t trainer = TrainerPid("shrunk", 1);
  worker("node-b").Kill();
  ASSERT_EQ(kill(trainer, SIGKILL), 0);
  const Json job = AwaitState("shrunk", "succeeded");
  ASSERT_EQ(job["attempts"].size(), 2u) << job["attempts"];
  EXPECT_EQ(job["attempts"][1]["layout"], 2);
  EXPECT_EQ(job["attempts"][1]["workers"], Json({"workers/node-a"}));
  EXPECT_EQ(ConditionOf(job, "ResumedExactly")["reason"], "OtherLayout");
  RunJob({.name = "calm", .steps = 12, .tp_size = 1});
  EXPECT_EQ(NumbersOf(Steps("shrunk")), Range(1, 12));
  ExpectNear(Losses("shrunk"), Losses("calm"));
}

TEST_F(RestartTest, CoordinatorThatDiesWhileAJobWaitsStartsItLater) {
  StartCluster();
  SubmitAndAwait(Job12("patient", "restart: {backoff: 3}\n"), 6);
  ASSERT_EQ(kill(TrainerPid("patient", 0), SIGKILL), 0);
  const Json waits = AwaitState("patient", "pending");
  EXPECT_EQ(ConditionOf(waits, "Scheduled")["reason"], "BackingOff");
  EXPECT_TRUE(waits.contains("next_attempt_time"));
  coordinator().Kill();
  StartCoordinator();
  const Json job = AwaitState("patient", "succeeded");
  EXPECT_EQ(job["attempt"], 2);
  ExpectUndisturbed("patient", Job12("calm"));
}

TEST_F(RestartTest, JobWithoutACheckpointStartsAtItsFirstStep) {
  StartCluster();
  JobFile job = Job12("early", "restart: {backoff: 0}\n");
  SubmitAndAwait(job, 2);
  ASSERT_EQ(kill(TrainerPid("early", 0), SIGKILL), 0);
  EXPECT_EQ(AwaitState("early", "succeeded")["attempt"], 2);
  ExpectUndisturbed("early", Job12("calm"));
}

TEST_F(RestartTest, SuspendedJobContinuesWithTheSameNumbers) {
  StartCluster();
  SubmitAndAwait(Job12("paused"), 5);
  EXPECT_EQ(Stretto({"job", "suspend", "paused"}).code, 0);
  Json paused = AwaitState("paused", "suspended");
  EXPECT_NE(paused["progress"]["last_checkpoint"], "step-00000004");
  EXPECT_TRUE(paused["placement"].empty());
  RunJob({.name = "between", .steps = 2});
  EXPECT_EQ(Stretto({"job", "resume", "paused"}).code, 0);
  EXPECT_EQ(AwaitState("paused", "succeeded")["attempt"], 2);
  EXPECT_NE(Stretto({"job", "resume", "paused"}).code, 0);
  ExpectUndisturbed("paused", Job12("calm"));
}

TEST_F(RestartTest, DrainedWorkerLosesItsJobButNoStep) {
  StartCoordinator();
  StartWorker("node-a", 2);
  StartWorker("node-b", 2);
  SubmitAndAwait(Job12("evicted", "restart: {max: 0, backoff: 0}\n"), 5);
  EXPECT_EQ(Stretto({"worker", "drain", "node-a", "--reason", "new memory"}).code, 0);
  const Json job = AwaitState("evicted", "succeeded");
  EXPECT_EQ(job["attempts"][0]["cause"], "preemption") << job["attempts"];
  EXPECT_EQ(job["attempts"][1]["workers"], Json({"workers/node-b"}));
  EXPECT_EQ(job["attempts"][1]["steps"], job["progress"]["steps"]);
  EXPECT_THAT(Stretto({"worker", "list"}).out, HasSubstr("new memory"));
  EXPECT_EQ(Stretto({"worker", "uncordon", "node-a"}).code, 0);
  EXPECT_THAT(Stretto({"worker", "list"}).out, Not(HasSubstr("new memory")));
  ExpectUndisturbed("evicted", Job12("calm"));
}

TEST_F(RestartTest, ExampleRuns) {
  StartCluster();
  RunExample("restart");
}

}  // namespace
}  // namespace stretto::integration
