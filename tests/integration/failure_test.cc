// SPDX-License-Identifier: Apache-2.0

// kill -9, of everything in turn.

#include <signal.h>

#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/integration/cluster.h"

namespace stretto::integration {
namespace {

using ::testing::HasSubstr;

using FailureTest = ClusterTest;

TEST_F(FailureTest, KilledTrainerFailsTheJobNamingRankSignalStepAndOperation) {
  StartCluster();
  const auto waiting =
      StartStretto(Submit({.name = "doomed", .steps = 100000, .more = kSlow}, {"--wait"}));
  ASSERT_TRUE(Eventually([&] { return Stretto({"job", "get", "doomed"}).code == 0; }));
  AwaitStep("doomed", 3);
  const pid_t other = TrainerPid("doomed", 0);
  ASSERT_EQ(kill(TrainerPid("doomed", 1), SIGKILL), 0);
  EXPECT_EQ(waiting->Wait(), 3);

  const Json job = Job("doomed");
  EXPECT_EQ(job["state"], "failed");
  const Json& failure = job["first_failure"];
  EXPECT_EQ(failure["rank"], 1) << failure;
  EXPECT_EQ(failure["signal"], SIGKILL);
  EXPECT_EQ(failure["exit_code"], 0);
  EXPECT_EQ(failure["worker"], "workers/node-a");
  EXPECT_GE(Int(failure["step"]), 3);
  const std::set<std::string> phases = {"data", "forward", "backward", "optimizer"};
  EXPECT_EQ(phases.count(failure["phase"].get<std::string>()), 1u) << failure;
  const std::string operation = failure["last_operation"];
  EXPECT_GT(operation.size(), 10u);
  EXPECT_THAT(ReadRun("doomed", 1, "program.txt"), HasSubstr("\n" + operation + "\n"));
  const Json ended = ConditionOf(job, "Succeeded");
  EXPECT_EQ(ended["reason"], "Killed");
  EXPECT_THAT(ended["message"].get<std::string>(),
              HasSubstr("rank 1 on worker node-a: killed by signal 9 at step"));
  EXPECT_FALSE(IsRunning(other));
  EXPECT_THAT(Stretto({"job", "describe", "doomed"}).out, HasSubstr(operation));
  // Its slots are free again.
  RunJob({.name = "next", .steps = 2});
}

TEST_F(FailureTest, TrainingGoesOnWhileTheCoordinatorIsDead) {
  StartCluster();
  const auto following = StartStretto(
      Submit({.name = "steady", .steps = 40, .more = kSlow}, {"--follow", "-o", "json"}));
  following->AwaitLine("\"step\":");
  const pid_t trainer = TrainerPid("steady", 0);
  EXPECT_EQ(coordinator().Kill(), -SIGKILL);
  const int before = LoggedStep("steady", 0);
  ASSERT_TRUE(Eventually([&] { return LoggedStep("steady", 0) >= before + 10; })) << before;
  StartCoordinator();
  const Json job = AwaitState("steady", "succeeded");
  EXPECT_EQ(Int(job["progress"]["steps"]), 40);
  EXPECT_EQ(TrainerPid("steady", 0), trainer);
  EXPECT_EQ(job["attempt"], 1);
  EXPECT_EQ(Int(job["progress"]["rank_ledgers"][1]["steps"]), 40);
  EXPECT_EQ(NumbersOf(Steps("steady")), Range(1, 40));
  EXPECT_EQ(following->Wait(), 0) << following->err();
  EXPECT_EQ(NumbersOf(StepsIn(following->out())), Range(1, 40));
  EXPECT_THAT(following->err(), HasSubstr("the job continues"));
  EXPECT_THAT(following->err(), HasSubstr("reconnected"));
}

TEST_F(FailureTest, EndedJobsAreThereAfterARestartOfTheCoordinator) {
  StartCluster();
  const Json before = RunJob({.name = "done", .steps = 5});
  coordinator().Kill();
  StartCoordinator();
  const Json after = Job("done");
  EXPECT_EQ(after["state"], "succeeded");
  EXPECT_EQ(after["progress"], before["progress"]);
  EXPECT_EQ(after["conditions"], before["conditions"]);
  EXPECT_EQ(NumbersOf(Steps("done")), Range(1, 5));
  ASSERT_TRUE(Eventually([&] {
    return Stretto({"worker", "get", "node-a", "-o", "json"}).json()["state"] == "ready";
  }));
  RunJob({.name = "next", .steps = 2});
}

TEST_F(FailureTest, RestartedDaemonAdoptsItsTrainers) {
  StartCluster();
  ASSERT_EQ(Stretto(Submit({.name = "adopted", .steps = 40, .more = kSlow}, {})).code, 0);
  AwaitStep("adopted", 3);
  const pid_t trainer = TrainerPid("adopted", 0);
  EXPECT_EQ(worker("node-a").Kill(), -SIGKILL);
  const int before = LoggedStep("adopted", 0);
  ASSERT_TRUE(Eventually([&] { return LoggedStep("adopted", 0) >= before + 5; }));
  StartWorker("node-a", 2);
  const Json job = AwaitState("adopted", "succeeded");
  EXPECT_EQ(TrainerPid("adopted", 0), trainer);
  EXPECT_EQ(job["attempt"], 1);
  EXPECT_EQ(NumbersOf(Steps("adopted")), Range(1, 40));
  EXPECT_EQ(Int(job["progress"]["rank_ledgers"][1]["steps"]), 40);
  RunJob({.name = "next", .steps = 2});
}

TEST_F(FailureTest, TrainersWithoutADaemonCheckpointAndEnd) {
  StartCoordinator({"--lease", "1", "--lost-rank-timeout", "4", "--lost-run-timeout", "4"});
  StartWorker("node-a", 2, {"--lease", "2"});
  const auto waiting =
      StartStretto(Submit({.name = "orphan", .steps = 100000, .more = kSlow}, {"--wait"}));
  ASSERT_TRUE(Eventually([&] { return Stretto({"job", "get", "orphan"}).code == 0; }));
  AwaitStep("orphan", 2);
  const pid_t trainers[] = {TrainerPid("orphan", 0), TrainerPid("orphan", 1)};
  worker("node-a").Kill();
  for (const pid_t pid : trainers) EXPECT_TRUE(Eventually([&] { return !IsRunning(pid); }));
  // The first to notice asks the other.
  EXPECT_THAT(ReadRun("orphan", 0, "trainer.log") + ReadRun("orphan", 1, "trainer.log"),
              HasSubstr("failed: DaemonLost"));
  const int last = LoggedStep("orphan", 0);
  const std::string checkpoint =
      absl::StrCat(CheckpointFolder("orphan"), "/step-",
                   std::string(8 - std::to_string(last).size(), '0'), last);
  EXPECT_TRUE(std::filesystem::exists(checkpoint + "/manifest.json")) << checkpoint;

  EXPECT_EQ(waiting->Wait(), 3);
  const Json job = Job("orphan");
  EXPECT_EQ(job["state"], "failed");
  const Json ended = ConditionOf(job, "Succeeded");
  EXPECT_EQ(ended["reason"], "WorkerLost");
  EXPECT_THAT(ended["message"].get<std::string>(),
              HasSubstr("worker node-a did not come back within 4s after its lease ended"));
  EXPECT_EQ(Stretto({"worker", "get", "node-a", "-o", "json"}).json()["state"], "lost");
}

}  // namespace
}  // namespace stretto::integration
