// SPDX-License-Identifier: Apache-2.0

// Ranks, their daemons and their nodes: what dies, hangs or is cut off is named in time, and the
// job trains again.

#include <signal.h>

#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "tests/integration/faults/fault_test.h"

namespace stretto::integration {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr double kLease = 10;  // of a worker at its coordinator

class RankFaultsTest : public FaultTest {
 protected:
  // Nodes of one slot. Node i has the address 127.0.1.i for its ranks, and reaches the coordinator
  // at 127.0.2.i.
  void StartNodes(int count) {
    listen_ = "0.0.0.0";
    StartCoordinator({"--insecure-listen-beyond-loopback"});
    for (int node = 1; node <= count; ++node) {
      StartWorker(absl::StrCat("node-", node), 1,
                  {"--interface", absl::StrCat("127.0.1.", node), "--coordinator",
                   absl::StrCat("127.0.2.", node, ":", grpc_port_)});
    }
  }
  void CutNode(int node) {
    network_.Cut(absl::StrCat("127.0.1.", node));
    network_.Cut(absl::StrCat("127.0.2.", node));
  }
  bool IsLost(const std::string& worker) {
    return Stretto({"worker", "get", worker, "-o", "json"}).json()["state"] == "lost";
  }

  Network network_;
};
#define NEEDS_NETWORK() \
  if (!network_.why_not().empty()) GTEST_SKIP() << network_.why_not()

TEST_F(RankFaultsTest, TrainerKilled) {
  Expect({"kill -9 of a trainer", "seen within 2 s, rank and signal named; trains within 10 s", 2,
          10});
  StartCluster();
  Run("killed", 8);
  Strike("killed", [&] { kill(TrainerPid("killed", 1), SIGKILL); });
  const Json failure = AwaitFailure();
  EXPECT_EQ(failure["rank"], 1) << failure;
  EXPECT_EQ(failure["signal"], SIGKILL) << failure;
  AwaitTrainingAgain();
}

TEST_F(RankFaultsTest, HostLost) {
  Expect({"the host of a worker is lost: no process and no network any more",
          "seen within the lease (10 s) and 1 s; trains on a spare worker within 20 s", kLease + 1,
          20});
  NEEDS_NETWORK();
  StartNodes(3);
  Run("moved", 8, absl::StrCat(kRestarts, kSplit));
  Strike("moved", [&] {
    CutNode(2);
    worker("node-2").Kill();
    kill(TrainerPid("moved", 1), SIGKILL);
  });
  EXPECT_TRUE(AwaitWithin(60, [&] { return IsLost("node-2"); }));
  NoteSeen();
  AwaitTrainingAgain();
}

TEST_F(RankFaultsTest, RankHangs) {
  Expect({"one rank of two hangs (SIGSTOP)",
          "rank, operation and who waits named within 30 s; trains within 45 s", 30, 45});
  StartCluster();
  Run("stopped", 8);
  Strike("stopped", [&] { kill(TrainerPid("stopped", 1), SIGSTOP); });
  const Json failure = AwaitFailure();
  EXPECT_EQ(failure["rank"], 1) << failure;
  EXPECT_NE(failure["last_operation"], "") << failure;
  EXPECT_THAT(failure["message"].get<std::string>(), HasSubstr("; rank 0 waits for it in call "));
  AwaitTrainingAgain();
}

TEST_F(RankFaultsTest, OnlyRankHangs) {
  Expect({"the only rank of a job hangs (SIGSTOP)",
          "rank and operation named within 30 s; trains within 45 s", 30, 45});
  StartCluster();
  ASSERT_EQ(Stretto(Submit({.name = "alone",
                            .steps = 1000000,
                            .tp_size = 1,
                            .schedule = "{name: megatron_sync}",
                            .more = kRestarts},
                           {}))
                .code,
            0);
  AwaitStep("alone", 20);
  Strike("alone", [&] { kill(TrainerPid("alone", 0), SIGSTOP); });
  const Json failure = AwaitFailure();
  EXPECT_EQ(failure["rank"], 0) << failure;
  EXPECT_NE(failure["last_operation"], "") << failure;
  AwaitTrainingAgain();
}

TEST_F(RankFaultsTest, TrainerNeverAttaches) {
  Expect(
      {"a trainer that never attaches to its daemon", "the job fails within 30 s, rank named", 30});
  const std::string trainer = Path("sleeper");
  std::ofstream(trainer) << "#!/bin/sh\nexec sleep 1000\n";
  fs::permissions(trainer, fs::perms::owner_all);
  StartCoordinator();
  StartWorker("node-a", 2, {"--trainer", trainer});
  ASSERT_EQ(Stretto(Submit({.name = "absent"}, {})).code, 0);
  AwaitState("absent", "preparing");
  Strike("absent", [] {});
  const Json failure = AwaitFailure();
  EXPECT_THAT(failure["message"].get<std::string>(), HasSubstr("has not attached to its daemon"));
}

TEST_F(RankFaultsTest, CutBetweenTwoRanks) {
  Expect({"the network between two ranks is cut", "both ends named within 30 s", 30});
  NEEDS_NETWORK();
  StartNodes(2);
  Run("cut", 8, kSplit);
  Strike("cut", [&] { network_.Cut("127.0.1.0/24"); });
  const Json failure = AwaitFailure();
  const int rank = failure["rank"];
  EXPECT_THAT(failure["message"].get<std::string>(),
              HasSubstr(absl::StrCat("it has received nothing from rank ", 1 - rank, " for ")));
}

TEST_F(RankFaultsTest, CoordinatorAndWorkerApart) {
  Expect({"coordinator and worker apart for 60 s",
          "the run trains on, and when contact returns it continues in the same attempt; 0 steps "
          "lost"});
  NEEDS_NETWORK();
  StartNodes(1);
  ASSERT_EQ(
      Stretto(Submit({.name = "apart", .steps = 100000, .tp_size = 1, .more = kRestarts}, {})).code,
      0);
  AwaitStep("apart", 20);
  Strike("apart", [&] { network_.Cut("127.0.2.0/24"); });
  LetPass(60);
  const Json job = Job("apart");
  EXPECT_EQ(job["state"], "running") << "it was given up: " << job["first_failure"];
  EXPECT_GT(LoggedStep("apart", 0), Int(job["progress"]["steps"])) << "they were not apart";
  network_.Heal("127.0.2.0/24");
  EXPECT_TRUE(AwaitWithin(90, [&] {
    return ConditionOf(Job("apart"), "WorkersReachable")["reason"] == "Returned";
  })) << "contact has not returned";
  ExpectUnharmed();
}

TEST_F(RankFaultsTest, SlowCheckpointOfOneRank) {
  Expect({"one rank writes its checkpoint 65 s slower",
          "the job continues in the same attempt; no bound of its own, but 30 s after the delay", 0,
          95});
  SlowCalls calls(Path("calls"));
  calls.Wrap(STRETTO_BINARY_DIR "/stretto-trainer", Path("slow-trainer"));
  StartCoordinator();
  StartWorker("node-a", 1);
  StartWorker("node-b", 1, {"--trainer", Path("slow-trainer")});
  Run("slow", 2, absl::StrCat(kSplit, "checkpoint: {interval_steps: 5}\n"));
  Strike("slow", [&] { calls.DelaySync(absl::Seconds(65)); });
  EXPECT_TRUE(AwaitWithin(30, [&] { return !calls.delays(); })) << "no fsync was delayed";
  LetPass(60);
  ExpectUnharmed();
}

TEST_F(RankFaultsTest, SlowVerificationBeforeResume) {
  Expect({"a rank verifies its files 65 s before it resumes (about 100 GB)",
          "the job trains; no bound of its own, but 30 s after the delay", 0, 95});
  SlowCalls calls(Path("calls"));
  calls.Wrap(STRETTO_BINARY_DIR "/stretto-trainer", Path("slow-trainer"));
  StartCoordinator();
  StartWorker("node-a", 1, {"--trainer", Path("slow-trainer")});
  StartWorker("node-b", 1);
  Run("large", 8, absl::StrCat(kSplit, kRestarts));
  Strike("large", [&] {
    calls.DelayOpen(absl::Seconds(65));
    kill(TrainerPid("large", 1), SIGKILL);
  });
  AwaitTrainingAgain();
  EXPECT_FALSE(calls.delays()) << "no open was delayed";
  EXPECT_GT(SinceStrike(), 65);
  EXPECT_EQ(Job("large")["attempt"], 2);
}

TEST_F(RankFaultsTest, DaemonStoppedUnderAFastJob) {
  Expect({"the worker daemon is stopped (SIGSTOP) under a fast job",
          "the trainers' own lease ends them, saved, within 30 s", 30});
  StartCluster();
  ASSERT_EQ(Stretto(Submit({.name = "fast", .steps = 100000000}, {})).code, 0);
  AwaitStep("fast", 50);
  Strike("fast", [&] { worker("node-a").Signal(SIGSTOP); });
  EXPECT_TRUE(AwaitWithin(60, [&] { return !IsRunning(trainers_[0]) && !IsRunning(trainers_[1]); }))
      << "a trainer lives on";
  NoteSeen();
  EXPECT_EQ(Job("fast")["state"], "running") << "the coordinator had given them up";
  NoteLost(LoggedStep("fast", 0) - SavedStep("fast"));
  EXPECT_EQ(SavedStep("fast"), LoggedStep("fast", 0));
  worker("node-a").Signal(SIGCONT);
}

TEST_F(RankFaultsTest, OneBitOfAReportLog) {
  Expect({"one bit of a rank's report log is flipped, then the coordinator restarts",
          "the job ends truly, and a condition says what is missing"});
  StartCluster();
  ASSERT_EQ(Stretto(Submit({.name = "flipped", .steps = 150, .more = kSlow}, {})).code, 0);
  AwaitStep("flipped", 100);  // the daemon remembers the newest 64 reports itself
  Strike("flipped", [&] {
    const std::string path = RunFolder("flipped", 1) + "/reports.log";
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto middle = static_cast<std::streamoff>(fs::file_size(path) / 4);
    file.seekg(middle);
    const auto byte = static_cast<char>(file.get() ^ 0x10);
    file.seekp(middle);
    file.put(byte);
    file.close();
    coordinator().Kill();
    StartCoordinator();
  });
  const Json job = AwaitState("flipped", "succeeded");
  const Json intact = ConditionOf(job, "LogIntact");
  EXPECT_EQ(intact["status"], "false") << intact;
  NoteLost(150 - Int(job["progress"]["steps"]));
  EXPECT_EQ(Int(job["progress"]["steps"]), 150);
}

TEST_F(RankFaultsTest, SigtermOfEverything) {
  Expect({.fault = "SIGTERM of every process, which then start again",
          .expected = "0 steps lost",
          .again_within = 30});
  StartCluster();
  Run("evicted", 8);
  Strike("evicted", [&] {
    for (const pid_t pid : trainers_) kill(pid, SIGTERM);
    worker("node-a").Signal(SIGTERM);
    coordinator().Signal(SIGTERM);
  });
  EXPECT_EQ(worker("node-a").Wait(), 0);
  EXPECT_EQ(coordinator().Wait(), 0);
  const int last = LoggedStep("evicted", 0);
  EXPECT_EQ(SavedStep("evicted"), last);
  StartCoordinator();
  StartWorker("node-a", 2);
  AwaitTrainingAgain();
  ASSERT_TRUE(AwaitWithin(60, [&] { return LoggedStep("evicted", 0) >= last + 3; }));
  EXPECT_EQ(StepsLogged(LogOf(0)).front(), last + 1) << "a step was trained again";
  EXPECT_EQ(Job("evicted")["attempts"][0]["cause"], "preemption");
  Stretto({"job", "cancel", "evicted"});
  const Json job = AwaitState("evicted", "cancelled");
  EXPECT_EQ(NumbersOf(Steps("evicted")), Range(1, Int(job["progress"]["steps"])));
}

}  // namespace
}  // namespace stretto::integration
