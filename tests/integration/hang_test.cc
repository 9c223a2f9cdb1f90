// SPDX-License-Identifier: Apache-2.0

// Processes that stand still: nothing ends, and nothing closes a connection.

#include <signal.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/integration/cluster.h"
#include "tests/integration/machine_faults.h"

namespace stretto::integration {
namespace {

using ::testing::HasSubstr;

// A fifth of the time that people have, for a hang and for leases.
class HangTest : public ClusterTest {
 protected:
  void Start(const Arguments& coordinator = {"--hang-timeout", "4"},
             const Arguments& worker = {"--stop-grace", "2"}) {
    StartCoordinator(coordinator);
    StartWorker("node-a", 2, worker);
  }
  void Run(const JobFile& job, int step) {
    ASSERT_EQ(Stretto(Submit(job, {})).code, 0);
    AwaitStep(job.name, step);
  }
  // A job whose two ranks have addresses of their own, 127.0.1.1 and 127.0.1.2.
  void RunOnTwoNodes(const std::string& name) {
    StartCoordinator({"--hang-timeout", "4"});
    StartWorker("node-a", 1, {"--stop-grace", "2", "--interface", "127.0.1.1"});
    StartWorker("node-b", 1, {"--stop-grace", "2", "--interface", "127.0.1.2"});
    Run({.name = name, .steps = 100000, .more = absl::StrCat(kSlow, kSplit)}, 3);
  }
  static std::string MessageOf(const Json& job) { return job["first_failure"]["message"]; }
};

TEST_F(HangTest, AStoppedRankIsNamedWithItsOperationAndWhoWaitsForIt) {
  Start();
  Run({.name = "stopped", .steps = 100000, .more = kSlow}, 3);
  const pid_t other = TrainerPid("stopped", 0);
  ASSERT_EQ(kill(TrainerPid("stopped", 1), SIGSTOP), 0);
  const Json job = AwaitState("stopped", "failed");
  EXPECT_EQ(ConditionOf(job, "Succeeded")["reason"], "Hang") << job["conditions"].dump(1);
  const Json& failure = job["first_failure"];
  EXPECT_EQ(failure["rank"], 1) << failure;
  EXPECT_EQ(failure["worker"], "workers/node-a");
  EXPECT_GE(Int(failure["step"]), 3);
  const std::string operation = failure["last_operation"];
  EXPECT_THAT(ReadRun("stopped", 1, "program.txt"), HasSubstr("\n" + operation + "\n"));
  EXPECT_THAT(MessageOf(job), HasSubstr("its process has shown no sign of life for"));
  EXPECT_THAT(MessageOf(job), HasSubstr("; rank 0 waits for it in call "));
  EXPECT_FALSE(IsRunning(other));
  RunJob({.name = "next", .steps = 2});  // its slots are free again
}

TEST_F(HangTest, TheOnlyRankOfAJobMayHangToo) {
  Start();
  Run({.name = "alone", .steps = 1000000, .tp_size = 1, .schedule = "{name: megatron_sync}"}, 3);
  ASSERT_EQ(kill(TrainerPid("alone", 0), SIGSTOP), 0);
  const Json job = AwaitState("alone", "failed");
  EXPECT_EQ(ConditionOf(job, "Succeeded")["reason"], "Hang") << job["conditions"].dump(1);
  EXPECT_EQ(job["first_failure"]["rank"], 0);
}

TEST_F(HangTest, ATrainerThatNeverAttachesFailsItsJob) {
  const std::string trainer = Path("sleeper");
  std::ofstream(trainer) << "#!/bin/sh\nexec sleep 1000\n";
  std::filesystem::permissions(trainer, std::filesystem::perms::owner_all);
  Start({"--hang-timeout", "4"}, {"--stop-grace", "2", "--trainer", trainer});
  ASSERT_EQ(Stretto(Submit({.name = "absent"}, {})).code, 0);
  const Json job = AwaitState("absent", "failed");
  EXPECT_EQ(ConditionOf(job, "Succeeded")["reason"], "Hang") << job["conditions"].dump(1);
  EXPECT_THAT(MessageOf(job), HasSubstr("has not attached to its daemon"));
}

// Ranks that stay alive while nothing that they send arrives. The addresses of the ranks are theirs
// alone, so everything else still works. Needs the right to make a network namespace.
TEST_F(HangTest, ACutBetweenTwoRanksIsNamedWithBothEnds) {
  Network network;
  if (!network.why_not().empty()) GTEST_SKIP() << network.why_not();
  RunOnTwoNodes("cut");
  network.Cut("127.0.1.0/24");
  const Json job = AwaitState("cut", "failed");
  EXPECT_EQ(ConditionOf(job, "Succeeded")["reason"], "Hang") << job["conditions"].dump(1);
  const int rank = job["first_failure"]["rank"];
  EXPECT_THAT(MessageOf(job),
              HasSubstr(absl::StrCat("it has received nothing from rank ", 1 - rank, " for ")));
  EXPECT_THAT(MessageOf(job), HasSubstr("check the network between them"));
}

// What one rank sends is lost, and what the other sends arrives. Where each then waits for the
// other in one call, both directions are named, and else the one that is cut.
TEST_F(HangTest, ACutInOneDirectionIsNamedWithTheEndThatReceivesNothing) {
  Network network;
  if (!network.why_not().empty()) GTEST_SKIP() << network.why_not();
  RunOnTwoNodes("deaf");
  const int deaf = Job("deaf")["placement"][0]["worker"] == "workers/node-a" ? 0 : 1;
  network.CutOneWay(/*from=*/"127.0.1.2", /*to=*/"127.0.1.1");
  const Json job = AwaitState("deaf", "failed");
  EXPECT_EQ(ConditionOf(job, "Succeeded")["reason"], "Hang") << job["conditions"].dump(1);
  const bool named = job["first_failure"]["rank"] == deaf;
  EXPECT_THAT(MessageOf(job), HasSubstr(absl::StrCat(named ? "it" : absl::StrCat("; rank ", deaf),
                                                     " has received nothing from rank ", 1 - deaf,
                                                     named ? " for " : " either")));
  EXPECT_THAT(MessageOf(job), HasSubstr("check the network between them"));
}

// Its steps take a millisecond, so the stream to the stopped daemon fills up at once.
TEST_F(HangTest, TrainersOfAStoppedDaemonCheckpointAndEnd) {
  StartCoordinator({"--lease", "2", "--lost-rank-timeout", "8", "--lost-run-timeout", "8"});
  StartWorker("node-a", 2, {"--lease", "3", "--stop-grace", "4"});
  Run({.name = "fast", .steps = 100000000}, 50);
  const pid_t trainers[] = {TrainerPid("fast", 0), TrainerPid("fast", 1)};
  worker("node-a").Signal(SIGSTOP);
  for (const pid_t pid : trainers) EXPECT_TRUE(Eventually([&] { return !IsRunning(pid); }));
  EXPECT_THAT(ReadRun("fast", 0, "trainer.log") + ReadRun("fast", 1, "trainer.log"),
              HasSubstr("failed: DaemonLost"));
  EXPECT_FALSE(std::filesystem::is_empty(CheckpointFolder("fast")));
  const Json job = AwaitState("fast", "failed");
  EXPECT_EQ(ConditionOf(job, "Succeeded")["reason"], "WorkerLost");
  worker("node-a").Signal(SIGCONT);
}

// The other rank is stopped too, so no step ends and nothing can be saved.
TEST_F(HangTest, ATrainerOfAStoppedDaemonEndsEvenIfItsStepDoesNot) {
  StartCoordinator({"--lease", "2", "--lost-rank-timeout", "8"});
  StartWorker("node-a", 2, {"--lease", "3", "--stop-grace", "2"});
  Run({.name = "stuck", .steps = 100000, .more = kSlow}, 3);
  worker("node-a").Signal(SIGSTOP);
  ASSERT_EQ(kill(TrainerPid("stuck", 1), SIGSTOP), 0);
  const pid_t pid = TrainerPid("stuck", 0);
  EXPECT_TRUE(Eventually([&] { return !IsRunning(pid); }));
  EXPECT_THAT(ReadRun("stuck", 0, "trainer.log"),
              HasSubstr("failed: DaemonLost: no sign of life from the worker daemon for 5s"));
  kill(TrainerPid("stuck", 1), SIGKILL);
  worker("node-a").Signal(SIGCONT);
}

}  // namespace
}  // namespace stretto::integration
