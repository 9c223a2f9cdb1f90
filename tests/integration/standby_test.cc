// SPDX-License-Identifier: Apache-2.0

// Two coordinators with their state in etcd: whatever happens to the one that leads, the other one
// continues within seconds, and no step and no acknowledged job is lost.

#include <signal.h>

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/cluster.h"
#include "tests/integration/cut_link.h"
#include "tests/integration/with_standby.h"
#include "tests/proto/tls/certificates.h"

namespace stretto::integration {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class StandbyTest : public WithStandby<ClusterTest> {
 protected:
  // What is promised of a fail-over.
  static constexpr absl::Duration kFailOver = absl::Seconds(10);

  void SetUp() override {
    if (!EtcdServer::Installed()) GTEST_SKIP() << EtcdServer::kSkipped;
    StartEtcd({});
  }
  // `a` leads, `b` waits, and a job trains.
  void StartAll(int steps) {
    StartBoth();
    EXPECT_THAT(Fetch(b_.metrics, "/healthz"), HasSubstr(" 200 "));
    StartWorker("node-a", 2);
    ASSERT_EQ(Stretto(Submit({.name = "trains", .steps = steps, .more = kSlow}, {})).code, 0);
    AwaitStep("trains", 3);
    trainer_ = TrainerPid("trains", 0);
    for (const char* name : {"first", "second"}) Acknowledge(name);
  }
  // Submits a job that waits for the one that trains.
  void Acknowledge(const std::string& name) {
    const Outcome outcome = Stretto(Submit({.name = name, .steps = 2}, {}));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    if (outcome.code == 0) acknowledged_.push_back(name);
  }
  // From now until a job is accepted and the run reports steps again.
  void ExpectFailOver(const char* submitted) {
    const absl::Time begin = absl::Now();
    const int before = LoggedStep("trains", 0);
    // A leader that has lost etcd refuses it, until another one leads.
    ASSERT_TRUE(
        Eventually([&] { return Stretto(Submit({.name = submitted, .steps = 2}, {})).code == 0; }));
    acknowledged_.push_back(submitted);
    const absl::Duration accepted = absl::Now() - begin;
    AwaitStep("trains", before + 1);
    const absl::Duration reported = absl::Now() - begin;
    std::cout << "a job was accepted after " << accepted << ", a step reported after " << reported
              << "\n";
    EXPECT_LT(accepted, kFailOver);
    EXPECT_LT(reported, kFailOver);
  }
  void ExpectNothingLost(int steps) {
    const Json job = AwaitState("trains", "succeeded");
    EXPECT_EQ(job["attempt"], 1);
    EXPECT_EQ(NumbersOf(Steps("trains")), Range(1, steps));
    for (const std::string& name : acknowledged_) AwaitState(name, "succeeded");
  }
  // A leader that may not lead any more says so and is gone.
  void ExpectEnded(Coordinator& coordinator) {
    EXPECT_EQ(coordinator.process->Wait(), 1);
    EXPECT_THAT(coordinator.process->err(), HasSubstr("no longer the leader under /stretto/"));
  }
  static Arguments FlagsOf(const tls::Files& files) {
    return {"--etcd-ca",       files.ca,     "--etcd-certificate",
            files.certificate, "--etcd-key", files.key};
  }

  pid_t trainer_ = 0;
  std::vector<std::string> acknowledged_;
};

TEST_F(StandbyTest, AKilledLeaderLosesNothing) {
  StartAll(150);
  const auto watch = StartStretto({"job", "watch", "trains", "-o", "json"});
  // Some of them are accepted, some are refused, and some never hear what became of them.
  std::map<std::string, std::unique_ptr<Process>> submissions;
  for (int i = 0; i < 6; ++i) {
    const std::string name = absl::StrCat("race-", i);
    submissions[name] = StartStretto(Submit({.name = name, .steps = 2}, {}));
  }
  a_.process->Kill();
  ExpectFailOver("third");
  for (const auto& [name, submission] : submissions) {
    if (submission->Wait() == 0) acknowledged_.push_back(name);
  }
  EXPECT_EQ(TrainerPid("trains", 0), trainer_);
  Start(a_, "a");  // is the standby now
  ASSERT_TRUE(Eventually([&] {
    return absl::StrContains(Fetch(a_.metrics, "/readyz"), "the leader is 127.0.0.1:" + b_.grpc);
  }));
  ExpectNothingLost(150);
  EXPECT_EQ(watch->Wait(), 0) << watch->err();
  EXPECT_EQ(NumbersOf(StepsIn(watch->out())), Range(1, 150));
}

// etcd takes only clients with a certificate of its CA.
TEST_F(StandbyTest, OverTlsToEtcdAKilledLeaderLosesNothing) {
  const tls::TestCa ca("etcd CA");
  const tls::Certificate server = {.alternative_names = "IP:127.0.0.1"};
  StartEtcd({}, ca.Write(folder_, "etcd-server", server));
  to_etcd_ = FlagsOf(ca.Write(folder_, "etcd-client", {.common_name = "stretto"}));
  StartAll(60);
  a_.process->Kill();
  ExpectFailOver("third");
  ExpectNothingLost(60);
}

TEST_F(StandbyTest, WhomEtcdDoesNotTrustOrWhoDoesNotTrustItSaysWhyItNeverLeads) {
  const tls::TestCa ca("etcd CA"), other("other CA");
  const tls::Certificate server = {.alternative_names = "IP:127.0.0.1"};
  StartEtcd({}, ca.Write(folder_, "etcd-server", server));
  const tls::Files good = ca.Write(folder_, "good", {});
  const tls::Files strange = other.Write(folder_, "strange", {});
  const auto expect_waits = [&](const std::string& name, const Arguments& flags,
                                const std::string& why) {
    Coordinator coordinator;
    Start(coordinator, name, flags);
    const std::string expected = absl::StrCat("; ", etcd_->endpoint(), ": ", why);
    std::string ready;
    EXPECT_TRUE(Eventually([&] {
      ready = Fetch(coordinator.metrics, "/readyz");
      return absl::StrContains(ready, "standby without a leader: etcd at " + etcd_->endpoint()) &&
             absl::StrContains(ready, expected);
    })) << ready;
    EXPECT_THAT(coordinator.process->err(), HasSubstr(expected));
    EXPECT_THAT(coordinator.process->out(), Not(HasSubstr("listening ")));
  };
  tls::Files wrong_ca = good, wrong_certificate = strange;
  wrong_ca.ca = strange.ca;
  wrong_certificate.ca = good.ca;
  expect_waits("wrong-ca", FlagsOf(wrong_ca),
               "its certificate is by CN=etcd CA and does not lead to --etcd-ca " + strange.ca);
  expect_waits("no-certificate", {"--etcd-ca", good.ca},
               "it wants a certificate of ours; give --etcd-certificate and --etcd-key");
  expect_waits("wrong-certificate", FlagsOf(wrong_certificate),
               absl::StrCat("it refuses our certificate ", strange.certificate,
                            " by CN=other CA; take one of the CA that etcd trusts"));
  expect_waits("plain", {},
               "it speaks TLS, and this client came without; give --etcd-ca, --etcd-certificate "
               "and --etcd-key");
  Start(a_, "a", FlagsOf(good));
  a_.process->AwaitLine("listening ");
  tls::Certificate expired = server;
  expired.end = -absl::Minutes(1);
  StartEtcd({}, ca.Write(folder_, "etcd-server", expired));
  expect_waits("etcd-expired", FlagsOf(good),
               "its certificate: found a certificate that expired at ");
  StartEtcd({});
  expect_waits("etcd-plain", FlagsOf(good),
               "it does not speak TLS; leave out --etcd-ca, --etcd-certificate and --etcd-key");
}

TEST_F(StandbyTest, ALeaderThatStopsHandsOverAtOnce) {
  StartAll(60);
  a_.process->Signal(SIGTERM);
  EXPECT_EQ(a_.process->Wait(), 0);
  ExpectFailOver("third");
  ExpectNothingLost(60);
}

TEST_F(StandbyTest, ALeaderThatIsCutOffFromEtcdEndsAndLosesNothing) {
  CutLink link(etcd_->port());
  a_.endpoints = link.address();
  StartAll(150);
  link.Cut();
  ExpectFailOver("third");
  ExpectEnded(a_);
  link.Heal();
  ExpectNothingLost(150);
}

TEST_F(StandbyTest, ALeaderThatIsPausedDoesNothingAfterwards) {
  StartAll(200);
  a_.process->Signal(SIGSTOP);
  ExpectFailOver("third");
  a_.process->Signal(SIGCONT);
  ExpectEnded(a_);
  EXPECT_EQ(TrainerPid("trains", 0), trainer_);
  ExpectNothingLost(200);
}

TEST_F(StandbyTest, WithoutEtcdRunsContinueAndNothingIsAccepted) {
  constexpr absl::Duration kAway = absl::Seconds(20);
  StartAll(300);
  const absl::Time begin = absl::Now();
  etcd_->Kill();
  ExpectEnded(a_);
  Start(a_, "a");
  const Outcome refused = Stretto(Submit({.name = "early", .steps = 2}, {}));
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("standby without a leader: etcd at " + etcd_->endpoint()));
  const int step = LoggedStep("trains", 0);
  ASSERT_TRUE(Eventually([&] { return LoggedStep("trains", 0) > step + 3; }));
  while (absl::Now() - begin < kAway) Pause();
  etcd_->Start();
  ExpectFailOver("late");
  EXPECT_EQ(TrainerPid("trains", 0), trainer_);
  ExpectNothingLost(300);
  EXPECT_NE(Stretto({"job", "get", "early"}).code, 0);
}

TEST_F(StandbyTest, AStateThatMovesToEtcdAndBackCostsNoStep) {
  constexpr int kSteps = 200;
  const Arguments to_etcd = {"--etcd-endpoints", etcd_->endpoint(), "--move-state"};
  const auto move = [&](const std::string& where) {
    Arguments argv = {STRETTO_BINARY_DIR "/stretto-coordinator", "--state-dir",
                      Path("coordinator")};
    argv.insert(argv.end(), to_etcd.begin(), to_etcd.end());
    argv.push_back(where);
    return RunDaemon(argv);
  };
  StartCoordinator();
  a_.grpc = grpc_port_;  // those who wait, serve and ask use this one
  b_.grpc = grpc_port_;
  a_.metrics = metrics_port_;
  StartWorker("node-a", 2);
  ASSERT_EQ(Stretto(Submit({.name = "trains", .steps = kSteps, .more = kSlow}, {})).code, 0);
  AwaitStep("trains", 3);
  trainer_ = TrainerPid("trains", 0);
  Acknowledge("first");
  EXPECT_THAT(move("etcd").err, HasSubstr("is in use by the coordinator with pid "));
  coordinator().Signal(SIGTERM);
  EXPECT_EQ(coordinator().Wait(), 0);
  const Outcome moved = move("etcd");
  EXPECT_EQ(moved.code, 0) << moved.err;
  EXPECT_THAT(moved.out, HasSubstr("moved 2 jobs and 1 workers of cluster "));
  EXPECT_THAT(RunDaemon(CoordinatorArgv({})).err,
              HasSubstr("whose state is in etcd; expected --etcd-endpoints"));

  Start(a_, "coordinator");
  a_.process->AwaitLine("listening ");
  AwaitStep("trains", LoggedStep("trains", 0) + 1);
  Acknowledge("second");
  EXPECT_THAT(move("database").err, HasSubstr("is in use by the coordinator with pid "));
  a_.process->Signal(SIGTERM);
  EXPECT_EQ(a_.process->Wait(), 0);
  Start(b_, "elsewhere");
  b_.process->AwaitLine("listening ");
  EXPECT_THAT(move("database").err,
              HasSubstr("found the leader 127.0.0.1:" + b_.grpc + ", expected none"));
  b_.process->Signal(SIGTERM);
  EXPECT_EQ(b_.process->Wait(), 0);
  const Outcome back = move("database");
  EXPECT_EQ(back.code, 0) << back.err;
  EXPECT_THAT(back.out, HasSubstr("moved 3 jobs and 1 workers of cluster "));

  StartCoordinator();
  EXPECT_EQ(TrainerPid("trains", 0), trainer_);
  ExpectNothingLost(kSteps);
}

TEST_F(StandbyTest, AFullEtcdHarmsNoRunAndRefusesNewJobs) {
  StartEtcd({"--quota-backend-bytes=300000"});
  StartAll(100'000);
  Outcome refused;
  for (int i = 0; i < 200 && refused.code <= 0; ++i) {
    refused = Stretto(Submit({.name = absl::StrCat("more-", i), .steps = 1}, {}));
  }
  EXPECT_THAT(refused.err, HasSubstr("database space exceeded. Nothing new is accepted until it "
                                     "has room; jobs that run continue"));
  const int step = LoggedStep("trains", 0);
  ASSERT_TRUE(Eventually([&] { return LoggedStep("trains", 0) > step + 3; }));
  EXPECT_TRUE(a_.process->running());
}

TEST_F(StandbyTest, WhatCannotWorkIsRefusedAtTheStart) {
  const auto refused = [&](const Arguments& flags) {
    Arguments argv = {STRETTO_BINARY_DIR "/stretto-coordinator",
                      "--listen",
                      "127.0.0.1:0",
                      "--metrics-listen",
                      "127.0.0.1:0",
                      "--state-dir",
                      Path("refused")};
    argv.insert(argv.end(), flags.begin(), flags.end());
    const Outcome outcome = RunDaemon(argv);
    EXPECT_NE(outcome.code, 0);
    return outcome.err + outcome.out;
  };
  EXPECT_THAT(refused({"--etcd-endpoints", "nowhere"}),
              HasSubstr("--etcd-endpoints: found \"nowhere\", expected HOST:PORT"));
  EXPECT_THAT(refused({"--etcd-endpoints", "10.1.2.3:2379"}),
              AllOf(HasSubstr("found 10.1.2.3:2379 without TLS"), HasSubstr("--etcd-ca"),
                    HasSubstr("--insecure-etcd-beyond-loopback")));
  EXPECT_THAT(refused({"--etcd-endpoints", etcd_->endpoint(), "--etcd-prefix", "stretto"}),
              HasSubstr("--etcd-prefix: found \"stretto\", expected one that begins and ends"));
  EXPECT_THAT(refused({"--etcd-endpoints", etcd_->endpoint(), "--advertise", "here"}),
              HasSubstr("--advertise: found \"here\", expected HOST:PORT"));
  EXPECT_THAT(refused({"--etcd-endpoints", etcd_->endpoint(), "--repair"}), HasSubstr("excludes"));
  const tls::Files expired = tls::TestCa().Write(folder_, "expired", {.end = -absl::Minutes(1)});
  Arguments with_expired = FlagsOf(expired);
  with_expired.insert(with_expired.end(), {"--etcd-endpoints", etcd_->endpoint()});
  EXPECT_THAT(refused(with_expired),
              HasSubstr(absl::StrCat("--etcd-certificate ", expired.certificate,
                                     ": found a certificate that expired at ")));
  fs::create_directories(Path("refused"));
  ASSERT_TRUE(WriteFileAtomic(Path("refused/cluster"), "another\n").ok());
  EXPECT_THAT(refused({"--etcd-endpoints", etcd_->endpoint()}),
              HasSubstr("found no cluster, expected another: its contents are lost"));
  Start(a_, "a");
  a_.process->AwaitLine("listening ");
  EXPECT_THAT(refused({"--etcd-endpoints", etcd_->endpoint()}),
              AllOf(HasSubstr("belongs to cluster "),
                    HasSubstr("; this coordinator belongs to cluster another")));
}

}  // namespace
}  // namespace stretto::integration
