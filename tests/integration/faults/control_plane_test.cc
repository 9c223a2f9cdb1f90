// SPDX-License-Identifier: Apache-2.0

// Faults of the control plane alone: the coordinator, its disk, its clock and its state. None of
// them costs a job a step.

#include <signal.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/coordinator/store/records.h"
#include "tests/integration/faults/fault_test.h"

namespace stretto::integration {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr char kUnharmed[] = "0 steps and 0 jobs lost";

class ControlPlaneFaultsTest : public FaultTest {
 protected:
  bool IsState(const std::string& worker, const std::string& state) {
    return Stretto({"worker", "get", worker, "-o", "json"}).json()["state"] == state;
  }
};

TEST_F(ControlPlaneFaultsTest, CoordinatorKilled) {
  Expect({"kill -9 of the coordinator, restarted after 15 s", kUnharmed});
  StartCluster();
  Run("steady", 5);
  Strike("steady", [&] { coordinator().Kill(); });
  LetPass(15);
  StartCoordinator();
  ExpectUnharmed();
}

TEST_F(ControlPlaneFaultsTest, CoordinatorPaused) {
  Expect({"the coordinator is paused for 40 s (SIGSTOP)", kUnharmed});
  StartCluster();
  Run("steady", 5);
  Strike("steady", [&] { coordinator().Signal(SIGSTOP); });
  LetPass(40);
  coordinator().Signal(SIGCONT);
  ExpectUnharmed();
}

TEST_F(ControlPlaneFaultsTest, OneFsyncOf35Seconds) {
  Expect({"one fsync of the coordinator's store takes 35 s", kUnharmed});
  SlowCalls calls(Path("calls"));
  calls.Preload(true);
  StartCoordinator();
  calls.Preload(false);
  StartWorker("node-a", 2);
  Run("steady", 5);
  std::unique_ptr<Process> waiting;
  Strike("steady", [&] {
    calls.DelaySync(absl::Seconds(35));
    waiting = StartStretto(Submit({.name = "later"}, {}));
  });
  EXPECT_TRUE(AwaitWithin(10, [&] { return !calls.delays(); })) << "no fsync was delayed";
  LetPass(45);
  waiting->Wait();
  ExpectUnharmed();
}

TEST_F(ControlPlaneFaultsTest, StateDiskFull) {
  Expect({"the disk of the coordinator's state is full for 45 s",
          "0 steps and 0 jobs lost; new jobs are refused while it is full"});
  SmallDisk disk(Path("coordinator"), 4096);
  if (!disk.why_not().empty()) GTEST_SKIP() << disk.why_not();
  StartCluster();
  Run("steady", 5);
  Strike("steady", [&] { FillDisk(Path("coordinator/filler")); });
  const Outcome refused = Stretto(Submit({.name = "later"}, {}));
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.err, HasSubstr("full"));
  LetPass(45);
  fs::remove(Path("coordinator/filler"));
  ExpectUnharmed();
  KillAll();
}

TEST_F(ControlPlaneFaultsTest, WallClockForward) {
  Expect({"the coordinator's wall clock jumps 60 s forward", kUnharmed});
  SlowCalls calls(Path("calls"));
  calls.Preload(true);
  StartCoordinator();
  calls.Preload(false);
  StartWorker("node-a", 2);
  Run("steady", 5);
  Strike("steady", [&] { calls.SetClock(absl::Seconds(60)); });
  LetPass(15);
  EXPECT_TRUE(IsState("node-a", "ready"));
  ExpectUnharmed();
}

TEST_F(ControlPlaneFaultsTest, WallClockBack) {
  Expect({"the coordinator's wall clock jumps 1 h back, then a worker stops (SIGSTOP)",
          "the worker is LOST within its lease (10 s) and 1 s", 11});
  SlowCalls calls(Path("calls"));
  calls.Preload(true);
  StartCoordinator();
  calls.Preload(false);
  StartWorker("node-a", 2);
  StartWorker("node-b", 1);
  Run("steady", 5);
  calls.SetClock(-absl::Hours(1));
  Strike("steady", [&] { worker("node-b").Signal(SIGSTOP); });
  EXPECT_TRUE(AwaitWithin(60, [&] { return IsState("node-b", "lost"); }));
  NoteSeen();
  ExpectUnharmed();
}

TEST_F(ControlPlaneFaultsTest, StateDeleted) {
  Expect({"the coordinator's state folder is lost; after 20 s a copy is put back", kUnharmed});
  StartCluster();
  Run("steady", 5);
  Strike("steady", [&] {
    coordinator().Kill();
    fs::rename(Path("coordinator"), Path("kept"));
    StartCoordinator();
  });
  LetPass(20);
  EXPECT_TRUE(AllAreRunning()) << "trainers were killed";
  coordinator().Kill();
  fs::remove_all(Path("coordinator"));
  fs::rename(Path("kept"), Path("coordinator"));
  StartCoordinator();
  ExpectUnharmed();
}

TEST_F(ControlPlaneFaultsTest, WorkerAtAnotherCluster) {
  Expect({"a worker is pointed at another cluster's coordinator by mistake",
          "it is refused, and its trainers live"});
  StartCluster();
  Run("steady", 5);
  const std::string port = grpc_port_;
  Strike("steady", [&] { worker("node-a").Kill(); });
  {
    Arguments argv = CoordinatorArgv({});
    argv[2] = argv[4] = "127.0.0.1:0";
    argv[6] = Path("other");
    Process other(argv, Path("other-log"));
    const std::string line = other.AwaitLine("listening ");
    const size_t at = line.find("grpc=") + 5;
    const Outcome refused = RunDaemon(WorkerArgv(
        "node-a", 2, {"--coordinator", "127.0.0.1:" + line.substr(at, line.find(' ', at) - at)}));
    EXPECT_EQ(refused.code, 1);
    EXPECT_THAT(refused.err, HasSubstr("belongs to cluster"));
  }
  EXPECT_TRUE(AllAreRunning()) << "trainers were killed";
  StartWorker("node-a", 2);
  ExpectUnharmed();
}

TEST_F(ControlPlaneFaultsTest, UnknownStateInTheStore) {
  Expect({"a stored job is in a state that this build does not know",
          "the coordinator refuses to start and names the record; nothing aborts"});
  StartCluster();
  Run("steady", 5);
  Strike("steady", [&] {
    coordinator().Signal(SIGTERM);
    EXPECT_EQ(coordinator().Wait(), 0);
  });
  fs::copy(Path("coordinator"), Path("kept"), fs::copy_options::recursive);
  coordinator::ExecuteAsARelease(
      Path("coordinator/coordinator.db"),
      "UPDATE jobs SET state = 99, body = json_set(body, '$.state', 99) WHERE id = 'steady'");
  const Outcome refused = RunDaemon(CoordinatorArgv({}));
  EXPECT_GT(refused.code, 0) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("stored job \"steady\": state: found 99, expected 1 to "));
  fs::remove_all(Path("coordinator"));
  fs::rename(Path("kept"), Path("coordinator"));
  StartCoordinator();
  ExpectUnharmed();
}

}  // namespace
}  // namespace stretto::integration
