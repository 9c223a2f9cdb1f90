// SPDX-License-Identifier: Apache-2.0

// A coordinator that lost its state, one of another cluster, a run of a name that was used before,
// and an end of everything: nothing that was trained is lost.

#include <signal.h>

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/integration/cluster.h"

namespace stretto::integration {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class StateTest : public ClusterTest {
 protected:
  void SubmitSlow(const std::string& name, int steps) {
    ASSERT_EQ(Stretto(Submit({.name = name, .steps = steps, .more = kSlow}, {})).code, 0);
    AwaitStep(name, 2);
  }
  // Runs a job that a coordinator will not know. The trainers' lease at their daemon is longer than
  // that, so what ends them is not the lease.
  void StartStranger() {
    StartWorker("node-a", 2, {"--lease", "120"});
    SubmitSlow("stranger", 100000);
    for (int rank : {0, 1}) strangers_.push_back(TrainerPid("stranger", rank));
  }
  // Nobody waits for it any more, yet it has stopped with its last step saved, and left its slots.
  void ExpectStrangerSavedAndStopped() {
    for (const pid_t trainer : strangers_) {
      EXPECT_TRUE(Eventually([&] { return !IsRunning(trainer); })) << "a trainer lives on";
    }
    EXPECT_TRUE(fs::exists(CheckpointFolder("stranger") +
                           absl::StrFormat("/step-%08d/manifest.json", LoggedStep("stranger", 0))));
    // The signal may come before the trainer has found its new daemon, and learned who asks.
    EXPECT_THAT(ReadRun("stranger", 0, "trainer.log"),
                ::testing::AnyOf(HasSubstr("ended: Cancelled"), HasSubstr("ended: Terminated")));
    EXPECT_NE(Stretto({"job", "get", "stranger"}).code, 0);
    RunJob({.name = "next", .steps = 2});
  }
  void AwaitMoreSteps(const std::string& name, int steps) {
    const int before = LoggedStep(name, 0);
    ASSERT_TRUE(Eventually([&] { return LoggedStep(name, 0) >= before + steps; }));
  }
  std::vector<pid_t> strangers_;
};

TEST_F(StateTest, LostStateEndsNoRunAndLosesNoStepOnceItIsRestored) {
  StartCluster();
  SubmitSlow("survivor", 60);
  const pid_t trainer = TrainerPid("survivor", 0);
  coordinator().Kill();
  fs::rename(Path("coordinator"), Path("kept"));
  StartCoordinator();
  ASSERT_TRUE(
      Eventually([&] { return absl::StrContains(worker("node-a").err(), "belongs to cluster"); }));
  AwaitMoreSteps("survivor", 3);
  EXPECT_EQ(Stretto({"worker", "list"}).out.find("node-a"), std::string::npos);
  coordinator().Kill();
  fs::remove_all(Path("coordinator"));
  fs::rename(Path("kept"), Path("coordinator"));
  StartCoordinator();
  AwaitState("survivor", "succeeded");
  EXPECT_EQ(TrainerPid("survivor", 0), trainer);
  EXPECT_EQ(NumbersOf(Steps("survivor")), Range(1, 60));
}

TEST_F(StateTest, WorkerAtAnotherClustersCoordinatorIsRefusedAndItsTrainersLive) {
  StartCoordinator();
  StartWorker("node-a", 2, {"--lease", "120"});  // longer than three starts of daemons
  SubmitSlow("mine", 60);
  const pid_t trainer = TrainerPid("mine", 0);
  const std::string port = grpc_port_;
  worker("node-a").Kill();
  {
    Arguments argv = CoordinatorArgv({});
    argv[2] = argv[4] = "127.0.0.1:0";
    argv[6] = Path("other");
    Process other(argv, Path("other-log"));
    const std::string line = other.AwaitLine("listening ");
    grpc_port_ = line.substr(line.find("grpc=") + 5,
                             line.find(' ', line.find("grpc=")) - line.find("grpc=") - 5);
    const Outcome lost = RunDaemon(WorkerArgv("node-a", 2, {}));
    EXPECT_EQ(lost.code, 1);
    EXPECT_THAT(lost.err, AllOf(HasSubstr("worker \"node-a\" belongs to cluster"),
                                HasSubstr("--join-new-cluster")));
    other.Kill();
  }
  EXPECT_TRUE(IsRunning(trainer));
  grpc_port_ = port;
  StartWorker("node-a", 2);
  AwaitState("mine", "succeeded");
  EXPECT_EQ(TrainerPid("mine", 0), trainer);
  EXPECT_EQ(NumbersOf(Steps("mine")), Range(1, 60));
}

// That a person passes the flag is the decision about what still runs there.
TEST_F(StateTest, TrainersOfAWorkerThatJoinsANewClusterAreSavedAndStopped) {
  StartCoordinator();
  StartStranger();
  worker("node-a").Kill();
  coordinator().Kill();
  fs::remove_all(Path("coordinator"));
  StartCoordinator();
  AwaitMoreSteps("stranger", 2);
  StartWorker("node-a", 2, {"--join-new-cluster"});
  ExpectStrangerSavedAndStopped();
}

// The copy is from before the job. Its worker comes back by itself, and again and again.
TEST_F(StateTest, TrainersThatARestoredCoordinatorDoesNotKnowAreSavedAndStopped) {
  StartCoordinator();
  coordinator().Kill();
  fs::copy(Path("coordinator"), Path("copy"), fs::copy_options::recursive);
  StartCoordinator();
  StartStranger();
  coordinator().Kill();
  fs::remove_all(Path("coordinator"));
  fs::rename(Path("copy"), Path("coordinator"));
  StartCoordinator();
  ASSERT_TRUE(Eventually([&] {
    return absl::StrContains(worker("node-a").err(), "Start the coordinator with --restored");
  }));
  AwaitMoreSteps("stranger", 2);
  coordinator().Kill();
  StartCoordinator({"--restored"});
  ExpectStrangerSavedAndStopped();
}

TEST_F(StateTest, ANameThatWasUsedBeforeTheStateWasLostMixesNoCheckpoints) {
  StartCluster();
  const std::string saves = "checkpoint: {interval_steps: 2, keep: 1}\n";
  RunJob({.name = "twice", .steps = 6, .more = saves});
  coordinator().Kill();
  worker("node-a").Kill();
  fs::remove_all(Path("coordinator"));
  StartCoordinator();
  StartWorker("node-a", 2, {"--join-new-cluster"});
  const Json second = RunJob({.name = "twice", .steps = 4, .more = saves + "seed: 5\n"});
  EXPECT_EQ(second["progress"]["last_checkpoint"], "step-00000004");
  for (const char* step : {"step-00000004", "step-00000006"}) {
    EXPECT_TRUE(fs::exists(CheckpointFolder("twice") + "/" + step + "/manifest.json")) << step;
  }
  const Json resumed =
      RunJob({.name = "third", .steps = 8, .more = "checkpoint: {resume_from: twice}\nseed: 5\n"},
             "failed");
  const Json ended = ConditionOf(resumed, "Succeeded");
  EXPECT_EQ(ended["reason"], "ResumeRefused");
  EXPECT_THAT(ended["message"].get<std::string>(),
              AllOf(HasSubstr("found those of 2 runs of that name"), HasSubstr("step-00000004"),
                    HasSubstr("step-00000006")));
}

// As a machine that shuts down does it: to every process, in any order. It is an end from outside,
// so a job with a policy continues when the machine is back, and one without has its last step.
TEST_F(StateTest, SigtermOfEverythingLosesNoStep) {
  StartCluster();
  const JobFile job = {.name = "evicted",
                       .steps = 40,
                       .more = absl::StrCat(kSlow, "restart: {max: 0, backoff: 0}\n")};
  ASSERT_EQ(Stretto(Submit(job, {})).code, 0);
  AwaitStep(job.name, 2);
  for (int rank : {0, 1}) kill(TrainerPid(job.name, rank), SIGTERM);
  worker("node-a").Signal(SIGTERM);
  coordinator().Signal(SIGTERM);
  EXPECT_EQ(worker("node-a").Wait(), 0);
  EXPECT_EQ(coordinator().Wait(), 0);
  const int last = LoggedStep(job.name, 0);
  ASSERT_LT(last, job.steps) << "the job has ended before the signals arrived";
  EXPECT_TRUE(
      fs::exists(CheckpointFolder(job.name) + absl::StrFormat("/step-%08d/manifest.json", last)));
  StartCoordinator();
  StartWorker("node-a", 2);
  const Json ended = AwaitState(job.name, "succeeded");
  ASSERT_EQ(ended["attempts"].size(), 2u) << ended["attempts"];
  EXPECT_EQ(ended["attempts"][0]["cause"], "preemption") << ended["attempts"];
  EXPECT_EQ(ended["restarts"], 0) << "a preemption is none that `max` counts";
  EXPECT_THAT(ReadRun(job.name, 0, "trainer.log"),
              HasSubstr(absl::StrFormat(": step %d loss", last + 1)));
  EXPECT_THAT(ReadRun(job.name, 0, "trainer.log"),
              Not(HasSubstr(absl::StrFormat(": step %d loss", last))));
  EXPECT_EQ(NumbersOf(Steps(job.name)), Range(1, job.steps));
  RunJob({.name = "calm", .steps = job.steps});
  EXPECT_EQ(Losses(job.name), Losses("calm"));
}

TEST_F(StateTest, ACancelledJobIsSaved) {
  StartCluster();
  SubmitSlow("enough", 100000);
  EXPECT_EQ(Stretto({"job", "cancel", "enough"}).code, 0);
  const Json job = AwaitState("enough", "cancelled");
  EXPECT_EQ(job["progress"]["last_checkpoint"],
            absl::StrFormat("step-%08d", LoggedStep("enough", 0)));
}

}  // namespace
}  // namespace stretto::integration
