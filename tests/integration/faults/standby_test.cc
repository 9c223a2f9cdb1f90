// SPDX-License-Identifier: Apache-2.0

// Faults of the coordinator that leads, with another one that waits and their state in etcd. None
// of them costs a job a step, and what a coordinator has acknowledged stays.

#include <signal.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/integration/cut_link.h"
#include "tests/integration/faults/fault_test.h"
#include "tests/integration/with_standby.h"

namespace stretto::integration {
namespace {

using ::testing::HasSubstr;

constexpr double kFailOver = 10;  // seconds
constexpr char kPromise[] =
    "the standby accepts jobs within 10 s; 0 steps and 0 acknowledged jobs lost";

class StandbyFaultsTest : public WithStandby<FaultTest> {
 protected:
  // A job trains, and others that were acknowledged wait for it.
  void StartAll() {
    StartBoth();
    StartJobs();
  }
  void StartJobs() {
    StartWorker("node-a", 2);
    Run("steady", 5);
    for (const char* name : {"first", "second"}) {
      const Outcome outcome = Stretto(Submit({.name = name, .steps = 2}, {}));
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      acknowledged_.push_back(name);
    }
  }
  // Some of them are accepted, some are refused, and some never hear what became of them.
  void SubmitMany() {
    for (int i = 0; i < 6; ++i) {
      const std::string name = absl::StrCat("race-", i);
      submissions_[name] = StartStretto(Submit({.name = name, .steps = 2}, {}));
    }
  }
  // Until the standby accepts a job, and a step that was done after the fault is reported.
  void AwaitFailOver() {
    const int before = LoggedStep(job_, 0);
    ASSERT_TRUE(AwaitWithin(
        60, [&] { return Stretto(Submit({.name = "third", .steps = 2}, {})).code == 0; }));
    NoteSeen();
    acknowledged_.push_back("third");
    ASSERT_TRUE(AwaitWithin(60, [&] { return Int(Job(job_)["progress"]["steps"]) > before; }));
    const double reported = SinceStrike();
    NoteFigures(absl::StrFormat("a step was reported after %.1f s", reported));
    EXPECT_LT(reported, kFailOver);
  }
  // A leader that may not lead any more says so and is gone.
  void ExpectEnded(Coordinator& coordinator) {
    EXPECT_EQ(coordinator.process->Wait(), 1);
    EXPECT_THAT(coordinator.process->err(), HasSubstr("no longer the leader under /stretto/"));
  }
  void ExpectNothingLost() {
    for (const auto& [name, submission] : submissions_) {
      if (submission->Wait() == 0) acknowledged_.push_back(name);
    }
    ExpectUnharmed();
    for (const std::string& name : acknowledged_) AwaitState(name, "succeeded");
    NoteFigures(absl::StrCat(acknowledged_.size(), " acknowledged jobs trained"));
  }

  std::map<std::string, std::unique_ptr<Process>> submissions_;
  std::vector<std::string> acknowledged_;
};
#define NEEDS_ETCD() \
  if (!EtcdServer::Installed()) GTEST_SKIP() << EtcdServer::kSkipped

TEST_F(StandbyFaultsTest, LeaderKilled) {
  Expect({"kill -9 of the coordinator that leads, with a standby", kPromise, kFailOver});
  NEEDS_ETCD();
  StartEtcd({});
  StartAll();
  SubmitMany();
  Strike("steady", [&] { a_.process->Kill(); });
  AwaitFailOver();
  ExpectNothingLost();
}

TEST_F(StandbyFaultsTest, LeaderPaused) {
  Expect({"the coordinator that leads is paused (SIGSTOP) until the standby leads", kPromise,
          kFailOver});
  NEEDS_ETCD();
  StartEtcd({});
  StartAll();
  SubmitMany();
  Strike("steady", [&] { a_.process->Signal(SIGSTOP); });
  AwaitFailOver();
  a_.process->Signal(SIGCONT);
  ExpectEnded(a_);
  ExpectNothingLost();
}

TEST_F(StandbyFaultsTest, LeaderCutOffFromEtcd) {
  Expect({"the coordinator that leads is cut off from etcd", kPromise, kFailOver});
  NEEDS_ETCD();
  StartEtcd({});
  CutLink link(etcd_->port());
  a_.endpoints = link.address();
  StartAll();
  SubmitMany();
  Strike("steady", [&] { link.Cut(); });
  AwaitFailOver();
  ExpectEnded(a_);
  link.Heal();
  ExpectNothingLost();
}

// The jump comes while calls wait for an answer, whose time must still end.
TEST_F(StandbyFaultsTest, WallClockBackWhileEtcdIsSilent) {
  Expect({"the coordinator that leads is cut off from etcd, and its wall clock jumps 1 h back",
          kPromise, kFailOver});
  NEEDS_ETCD();
  StartEtcd({});
  CutLink link(etcd_->port());
  a_.endpoints = link.address();
  SlowCalls calls(Path("calls"));
  calls.Preload(true);
  Start(a_, "a");
  calls.Preload(false);
  a_.process->AwaitLine("listening ");
  Start(b_, "b");
  StartJobs();
  SubmitMany();
  Strike("steady", [&] { link.Cut(); });
  LetPass(0.5);
  calls.SetClock(-absl::Hours(1));
  AwaitFailOver();
  ExpectEnded(a_);
  link.Heal();
  ExpectNothingLost();
}

TEST_F(StandbyFaultsTest, LeaderTerminated) {
  Expect({"SIGTERM of the coordinator that leads, with a standby", kPromise, kFailOver});
  NEEDS_ETCD();
  StartEtcd({});
  StartAll();
  SubmitMany();
  Strike("steady", [&] { a_.process->Signal(SIGTERM); });
  AwaitFailOver();
  EXPECT_EQ(a_.process->Wait(), 0);
  ExpectNothingLost();
}

}  // namespace
}  // namespace stretto::integration
