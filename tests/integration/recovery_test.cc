// SPDX-License-Identifier: Apache-2.0

// What comes after a death: restarts in every order, and ends that were asked for.

#include <signal.h>

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/cluster.h"

namespace stretto::integration {
namespace {

using ::testing::HasSubstr;

class RecoveryTest : public ClusterTest {
 protected:
  void SubmitSlow(const std::string& name, int steps, const std::string& more = "") {
    ASSERT_EQ(Stretto(Submit({.name = name, .steps = steps, .more = kSlow + more}, {})).code, 0);
    AwaitStep(name, 2);
  }
};

TEST_F(RecoveryTest, BothDaemonsDieAndTheWorkerComesBackFirst) {
  StartCluster();
  SubmitSlow("survivor", 40);
  const pid_t trainer = TrainerPid("survivor", 1);
  coordinator().Kill();
  worker("node-a").Kill();
  const int before = LoggedStep("survivor", 0);
  ASSERT_TRUE(Eventually([&] { return LoggedStep("survivor", 0) >= before + 3; }));
  LaunchWorker("node-a", 2);
  ASSERT_TRUE(Eventually([&] { return absl::StrContains(worker("node-a").err(), "adopted"); }));
  ASSERT_TRUE(Eventually([&] { return LoggedStep("survivor", 0) >= before + 6; }));
  StartCoordinator();
  AwaitWorker("node-a");
  const Json job = AwaitState("survivor", "succeeded");
  EXPECT_EQ(TrainerPid("survivor", 1), trainer);
  EXPECT_EQ(NumbersOf(Steps("survivor")), Range(1, 40));
}

TEST_F(RecoveryTest, TrainerThatDiedWhileNoDaemonRanIsTheFirstFailure) {
  StartCluster();
  SubmitSlow("unseen", 100000);
  worker("node-a").Kill();
  const pid_t other = TrainerPid("unseen", 0), pid = TrainerPid("unseen", 1);
  kill(pid, SIGKILL);
  ASSERT_TRUE(Eventually([&] { return !IsRunning(pid); }));
  StartWorker("node-a", 2);
  const Json job = AwaitState("unseen", "failed");
  EXPECT_FALSE(IsRunning(other));
  EXPECT_EQ(job["first_failure"]["rank"], 1) << job["first_failure"];
  EXPECT_GE(Int(job["first_failure"]["step"]), 2);
  const Json ended = ConditionOf(job, "Succeeded");
  EXPECT_EQ(ended["reason"], "ExitUnobserved");
  EXPECT_THAT(ended["message"].get<std::string>(), HasSubstr("ended while no daemon watched it"));
  RunJob({.name = "next", .steps = 2});
}

TEST_F(RecoveryTest, LossOfOneNodeForGoodFailsTheGangWithACheckpoint) {
  StartCoordinator({"--lease", "1", "--lost-rank-timeout", "4"});
  StartWorker("node-a", 1, {"--lease", "2"});
  StartWorker("node-b", 1, {"--lease", "2"});
  SubmitSlow("split", 100000, kSplit);
  const pid_t trainers[] = {TrainerPid("split", 0), TrainerPid("split", 1)};
  worker("node-b").Kill();
  const Json job = AwaitState("split", "failed");
  EXPECT_EQ(ConditionOf(job, "Succeeded")["reason"], "WorkerLost") << job["conditions"].dump(1);
  EXPECT_EQ(job["first_failure"]["worker"], "workers/node-b");
  for (const pid_t pid : trainers) EXPECT_TRUE(Eventually([&] { return !IsRunning(pid); }));
  EXPECT_FALSE(std::filesystem::is_empty(CheckpointFolder("split")));
  const Json node = Stretto({"worker", "get", "node-a", "-o", "json"}).json();
  EXPECT_EQ(node["free_slots"], 1) << node;
}

TEST_F(RecoveryTest, WorkerThatIsAskedToEndStopsItsTrainersWithACheckpoint) {
  StartCluster();
  SubmitSlow("evicted", 100000);
  const pid_t trainer = TrainerPid("evicted", 0);
  worker("node-a").Signal(SIGTERM);
  EXPECT_EQ(worker("node-a").Wait(), 0);
  EXPECT_FALSE(IsRunning(trainer));
  const Json job = AwaitState("evicted", "failed");
  const Json ended = ConditionOf(job, "Succeeded");
  EXPECT_EQ(ended["reason"], "Stopped");
  EXPECT_THAT(ended["message"].get<std::string>(), HasSubstr("worker node-a is shutting down"));
  const std::string checkpoint = job["progress"]["last_checkpoint"];
  EXPECT_NE(checkpoint, "");
  EXPECT_TRUE(std::filesystem::exists(
      absl::StrCat(CheckpointFolder("evicted"), "/", checkpoint, "/manifest.json")));
}

TEST_F(RecoveryTest, JobCanBeCancelledWhileItPrepares) {
  StartCluster();
  const std::string more = absl::StrCat("profile: {steps: 1000}\n", kSlow);
  ASSERT_EQ(Stretto(Submit({.name = "profiled", .more = more}, {})).code, 0);
  // There is a run folder once the daemon has started the trainer.
  for (const char* line : {"trainer started job=profiled epoch=1 rank=0", "rank=1 slot=1"}) {
    ASSERT_TRUE(Eventually([&] { return absl::StrContains(worker("node-a").err(), line); }));
  }
  ASSERT_TRUE(Eventually([&] {
    return absl::StrContains(ReadRun("profiled", 0, "trainer.log"), "started job=profiled");
  }));
  EXPECT_EQ(Job("profiled")["state"], "preparing");
  EXPECT_EQ(Stretto({"job", "cancel", "profiled"}).code, 0);
  EXPECT_EQ(Stretto({"job", "watch", "profiled"}).code, 4);
  EXPECT_FALSE(Job("profiled").contains("first_failure"));
}

TEST_F(RecoveryTest, LogsAreFollowedToTheEnd) {
  StartCluster();
  SubmitSlow("chatty", 12);
  const auto logs = StartStretto({"job", "logs", "chatty", "-f"});
  EXPECT_EQ(logs->Wait(), 0) << logs->err();
  for (const char* rank : {"[rank 0] ", "[rank 1] "}) {
    EXPECT_THAT(logs->out(), HasSubstr(rank));
  }
  EXPECT_THAT(logs->out(), HasSubstr("step 1 loss"));
  EXPECT_THAT(logs->out(), HasSubstr("ended: Completed after step 12"));
}

TEST_F(RecoveryTest, StoppedCoordinatorLeavesTheJobToItsWorkers) {
  StartCluster();
  SubmitSlow("detached", 30);
  const auto following = StartStretto({"job", "watch", "detached", "-o", "json"});
  following->AwaitLine("\"step\":");
  coordinator().Signal(SIGTERM);
  EXPECT_EQ(coordinator().Wait(), 0);
  StartCoordinator();
  EXPECT_EQ(following->Wait(), 0) << following->err();
  EXPECT_EQ(NumbersOf(StepsIn(following->out())), Range(1, 30));
}

}  // namespace
}  // namespace stretto::integration
