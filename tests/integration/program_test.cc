// SPDX-License-Identifier: Apache-2.0

// The programs as people start and stop them.

#include <signal.h>

#include "absl/strings/str_cat.h"
#include "proto/base/version.h"
#include "tests/integration/cluster.h"

namespace stretto::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

using ProgramTest = ClusterTest;

TEST_F(ProgramTest, SecondWorkerWithTheSameNameIsRefused) {
  StartCluster();
  const Outcome second = RunDaemon(WorkerArgv("node-a", 2, {"--state-dir", Path("elsewhere")}));
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.err, HasSubstr("worker \"node-a\" is already connected from host"));
  RunJob({.name = "unharmed", .steps = 2});
}

TEST_F(ProgramTest, ProgramsOfUsersPrintTheirVersion) {
  for (const char* name : {"stretto", "stretto-coordinator", "stretto-worker", "stretto-bench"}) {
    const Outcome printed = RunDaemon({absl::StrCat(STRETTO_BINARY_DIR, "/", name), "--version"});
    EXPECT_EQ(printed.code, 0) << name << ": " << printed.err;
    EXPECT_THAT(printed.out, HasSubstr(kBuildVersion)) << name;
  }
}

TEST_F(ProgramTest, PortInUseIsExitCodeOneNamingTheAddress) {
  StartCluster();
  Arguments argv = CoordinatorArgv({});
  argv.back() = Path("elsewhere");
  const Outcome grpc = RunDaemon(argv);
  EXPECT_EQ(grpc.code, 1);
  EXPECT_THAT(grpc.err, HasSubstr("cannot listen on 127.0.0.1:" + metrics_port_));
  argv[4] = "127.0.0.1:0";
  const Outcome metrics = RunDaemon(argv);
  EXPECT_EQ(metrics.code, 1);
  EXPECT_THAT(metrics.err, HasSubstr("cannot listen on 127.0.0.1:" + grpc_port_));
  const std::string taken = "127.0.0.1:" + worker_ports_["node-a"];
  const Outcome worker = RunDaemon(WorkerArgv("node-b", 1, {"--metrics-listen", taken}));
  EXPECT_EQ(worker.code, 1);
  EXPECT_THAT(worker.err, HasSubstr(taken));
}

TEST_F(ProgramTest, InterruptedFollowDetachesAndTheJobGoesOn) {
  StartCluster();
  const auto following =
      StartStretto(Submit({.name = "watched", .steps = 30, .more = kSlow}, {"--follow"}));
  following->AwaitLine("step 1/30");
  following->Signal(SIGINT);
  EXPECT_EQ(following->Wait(), 5);
  EXPECT_THAT(following->err(), HasSubstr("detached: job watched continues"));
  EXPECT_THAT(following->err(), HasSubstr("stretto job cancel watched"));
  EXPECT_EQ(Int(AwaitState("watched", "succeeded")["progress"]["steps"]), 30);
}

TEST_F(ProgramTest, InterruptedUpLeavesNoProcessBehind) {
  const auto up = StartStretto({"up", "--workers", "2", "--slots", "1", "--listen", "127.0.0.1:0",
                                "--metrics-listen", "127.0.0.1:0", "--state-dir", Path("up"),
                                "--data-root", Path("data")});
  const std::string line = up->AwaitLine("STRETTO_COORDINATOR=127.0.0.1:");
  grpc_port_ = line.substr(line.rfind(':') + 1);
  ASSERT_EQ(
      Stretto(Submit({.name = "running", .steps = 100000, .more = absl::StrCat(kSlow, kSplit)}, {}))
          .code,
      0);
  AwaitStep("running", 2);
  const pid_t trainers[] = {TrainerPid("running", 0), TrainerPid("running", 1)};
  up->Signal(SIGINT);
  EXPECT_EQ(up->Wait(), 0) << up->err();
  EXPECT_THAT(up->err(), HasSubstr("stopped"));
  for (const pid_t pid : trainers) EXPECT_FALSE(IsRunning(pid));
  EXPECT_THAT(Children(), IsEmpty());
}

TEST_F(ProgramTest, ClientWithoutACoordinatorSaysWhereItLooked) {
  grpc_port_ = "1";  // nobody may listen there
  const Outcome outcome = Stretto({"job", "list"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("cannot reach the coordinator at 127.0.0.1:1"));
}

}  // namespace
}  // namespace stretto::integration
