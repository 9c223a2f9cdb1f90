// SPDX-License-Identifier: Apache-2.0

// The daemon with fake trainers as real processes and a coordinator in this process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <thread>

#include "absl/strings/match.h"
#include "proto/base/version.h"
#include "proto/bounds/worker_bounds.h"
#include "stretto/v1alpha1/trainer.grpc.pb.h"
#include "tests/proto/tls/certificates.h"
#include "tests/worker/daemon/daemon_fixture.h"
#include "tests/worker/daemon/fake_nvml/fake_nvml.h"
#include "worker/daemon/daemon_options.h"

namespace stretto::daemon {
namespace {

using ::testing::HasSubstr;

TEST_F(DaemonTest, RegistersWithNameDevicesAndVersions) {
  StartDaemon();
  ASSERT_TRUE(coordinator_->WaitFor([&] { return coordinator_->heartbeats >= 3; }));
  const v1::Register& hello = coordinator_->registrations.at(0);
  EXPECT_EQ(hello.worker_id(), "node-a");
  EXPECT_EQ(hello.protocol_version(), kProtocolVersion);
  EXPECT_EQ(hello.build(), kBuildVersion);
  ASSERT_EQ(hello.devices_size(), 2);
  EXPECT_THAT(hello.devices(0).description(), HasSubstr("cpu core"));
}

TEST_F(DaemonTest, OffersGpusWithTheirFaults) {
  fake_nvml::state() = {};
  fake_nvml::state().gpus = {{.uuid = "GPU-a", .name = "H200", .total = 1000, .free = 900},
                             {.uuid = "GPU-b", .name = "H200", .ecc = 1}};
  nvml_library_ = FAKE_NVML;
  StartDaemon();
  ASSERT_TRUE(coordinator_->WaitFor([&] { return coordinator_->heartbeats >= 1; }));
  const v1::Register& hello = coordinator_->registrations.at(0);
  ASSERT_EQ(hello.devices_size(), 4);
  EXPECT_EQ(hello.devices(1).kind(), v1::DEVICE_CPU);
  EXPECT_EQ(hello.devices(2).kind(), v1::DEVICE_CUDA);
  EXPECT_EQ(hello.devices(2).slot(), 2);
  EXPECT_EQ(hello.devices(2).description(), "H200 (GPU 0)");
  EXPECT_EQ(hello.devices(2).memory_bytes(), 1000);
  EXPECT_EQ(hello.devices(2).fault(), "");
  EXPECT_EQ(hello.devices(3).fault(), "1 uncorrected memory error");
  EXPECT_THAT(daemon_->metrics().Text(),
              HasSubstr("stretto_gpu_healthy{gpu=\"1\",uuid=\"GPU-b\"} 0"));
}

TEST_F(DaemonTest, HeartbeatsTellOfAGpuThatIsLostAndComesBack) {
  fake_nvml::state() = {};
  fake_nvml::state().gpus = {{.uuid = "GPU-a"}, {.uuid = "GPU-b"}};
  nvml_library_ = FAKE_NVML;
  clock_ = &fake_clock_;
  StartDaemon();
  // Of slots 2 and 3; 0 and 1 are cores.
  const auto told = [&](const std::string& fault_of_b) {
    return coordinator_->WaitFor([&] {
      const v1::Heartbeat& heartbeat = coordinator_->heartbeat;
      return heartbeat.health_size() == 2 && heartbeat.health(0).slot() == 2 &&
             heartbeat.health(0).fault().empty() && heartbeat.health(1).slot() == 3 &&
             heartbeat.health(1).fault() == fault_of_b;
    });
  };
  ASSERT_TRUE(told(""));

  fake_nvml::state().gpus[1].result = 15;
  fake_clock_.Advance(GpuWatch::kInterval);
  EXPECT_TRUE(told("lost: it does not answer on the bus any more"));
  EXPECT_THAT(daemon_->metrics().Text(),
              HasSubstr("stretto_gpu_healthy{gpu=\"1\",uuid=\"GPU-b\"} 0"));

  fake_nvml::state().gpus[1].result = 0;
  fake_clock_.Advance(GpuWatch::kInterval);
  EXPECT_TRUE(told(""));
}

TEST_F(DaemonTest, NodeWithoutGpusHasNoHealthToTell) {
  StartDaemon();
  ASSERT_TRUE(coordinator_->WaitFor([&] { return coordinator_->heartbeats >= 1; }));
  EXPECT_EQ(coordinator_->heartbeat.health_size(), 0);
}

TEST_F(DaemonTest, DriverThatIsTooOldMeansNoGpus) {
  nvml_library_ = NVML_STUMP;
  StartDaemon();
  ASSERT_TRUE(coordinator_->WaitFor([&] { return coordinator_->heartbeats >= 1; }));
  EXPECT_EQ(coordinator_->registrations.at(0).devices_size(), 2);
}

TEST_F(DaemonTest, RunsAGangAndForwardsItsReportsInOrder) {
  StartDaemon();
  coordinator_->Send(AssignMessage("steps=3;then=complete"));
  EXPECT_EQ(WaitForExit(0).reason(), "Completed");
  EXPECT_EQ(WaitForExit(1).exit_code(), 0);
  for (const int rank : {0, 1}) {
    ExpectGapless(rank);
    EXPECT_EQ(coordinator_->CopyReportsOf(rank).size(), 5u);  // prepared, 3 steps, exit
  }
  EXPECT_THAT(daemon_->metrics().Text(),
              HasSubstr("stretto_steps_total{training_job=\"gpt\",rank=\"1\"} 3"));
}

// What a trainer says must not cost its node the session.
TEST_F(DaemonTest, ReportsAreFittedToTheCoordinatorsBounds) {
  StartDaemon();
  coordinator_->Send(AssignMessage("steps=1;then=evil", 1));
  EXPECT_EQ(WaitForExit(0).reason(), "Evil\\x1b[2J");
  ExpectGapless(0);
  for (const v1::RankReport& report : coordinator_->CopyReportsOf(0)) {
    v1::WorkerMessage message;
    *message.mutable_report() = report;
    EXPECT_TRUE(AdmitWorkerMessage(&message).ok()) << AdmitWorkerMessage(&message);
  }
  EXPECT_EQ(coordinator_->CopyReportsOf(0).size(), 4u);  // none is lost
}

TEST_F(DaemonTest, AssigningTwiceStartsOnce) {
  StartDaemon();
  coordinator_->Send(AssignMessage("steps=1;then=hang"));
  ASSERT_TRUE(WaitForSteps(1, 1));
  EXPECT_THAT(daemon_->metrics().Text(),
              HasSubstr("stretto_trainer_resident_bytes{training_job=\"gpt\",rank=\"1\"} "));
  const ProcessId before = Trainer(1);
  coordinator_->Send(AssignMessage("steps=1;then=hang"));
  coordinator_->Send(StopMessage(5000));
  EXPECT_EQ(WaitForExit(1).reason(), "Cancelled");
  EXPECT_EQ(Trainer(1), before);
}

TEST_F(DaemonTest, KilledTrainerIsReportedWithSignalStepAndOperationAndItsGangIsStopped) {
  StartDaemon();
  coordinator_->Send(AssignMessage("steps=2;then=hang"));
  ASSERT_TRUE(WaitForSteps(0, 2));
  ASSERT_TRUE(WaitForSteps(1, 2));
  const int pid = Trainer(1).pid;
  ::kill(pid, SIGKILL);

  const v1::RankExit killed = WaitForExit(1);
  EXPECT_EQ(killed.signal(), 9);
  EXPECT_EQ(killed.reason(), "Killed");
  EXPECT_EQ(killed.step(), 2);
  EXPECT_EQ(killed.phase(), "forward");
  EXPECT_EQ(killed.last_operation(),
            "18 comm.tp all_reduce L3.fc2 fwd mb0 s0 in=%12 out=%12 wait=17");
  EXPECT_FALSE(killed.stopped_by_daemon());
  EXPECT_EQ(killed.message(),
            absl::StrCat("rank 1 of job gpt (pid ", pid,
                         ") was killed by signal 9 (Killed) in step 2, forward, at 18 comm.tp "
                         "all_reduce L3.fc2 fwd mb0 s0 in=%12 out=%12 wait=17"));
  const v1::RankExit other = WaitForExit(0);
  EXPECT_TRUE(other.stopped_by_daemon());
  EXPECT_EQ(other.reason(), "Cancelled");
  ExpectGapless(1);
}

TEST_F(DaemonTest, ExitCodeAndCrashAreReported) {
  StartDaemon();
  coordinator_->Send(AssignMessage("steps=1;then=code3", 1));
  const v1::RankExit failed = WaitForExit(0);
  EXPECT_EQ(failed.exit_code(), 3);
  EXPECT_EQ(failed.reason(), "Failed");
  EXPECT_THAT(failed.message(), HasSubstr("exited with code 3 without a last report"));

  coordinator_->Send(AssignMessage("steps=1;then=segv", 2, 2));
  EXPECT_TRUE(coordinator_->WaitFor([&] {
    for (const v1::RankReport& report : coordinator_->reports) {
      if (report.epoch() == 2 && report.exit().signal() == SIGSEGV) {
        return report.exit().reason() == "Crashed";
      }
    }
    return false;
  }));
}

TEST_F(DaemonTest, StopEndsTheDeafAfterTheGrace) {
  StartDaemon();
  coordinator_->Send(AssignMessage("steps=1;then=hang;rank1=deaf"));
  ASSERT_TRUE(WaitForSteps(0, 1));
  ASSERT_TRUE(WaitForSteps(1, 1));
  coordinator_->Send(StopMessage(300));
  const v1::RankExit polite = WaitForExit(0);
  EXPECT_EQ(polite.reason(), "Cancelled");
  EXPECT_TRUE(polite.stopped_by_daemon());
  const v1::RankExit deaf = WaitForExit(1);
  EXPECT_EQ(deaf.signal(), SIGKILL);
  EXPECT_TRUE(deaf.stopped_by_daemon());
  EXPECT_THAT(deaf.message(), HasSubstr("the daemon stopped it: cancelled by a user"));
}

TEST_F(DaemonTest, CoordinatorRestartIsReplayedWithoutGaps) {
  StartDaemon();
  coordinator_->acknowledge = false;
  coordinator_->Send(AssignMessage("steps=3;then=hang", 1));
  ASSERT_TRUE(WaitForSteps(0, 3));
  const int port = coordinator_->port();
  coordinator_.reset();
  const ProcessId trainer = Trainer(0);
  ::kill(trainer.pid, SIGUSR1);  // a step that nobody hears of

  coordinator_ =
      std::make_unique<FakeCoordinator>(port, std::vector<v1::HeldRankReply>{Reply(0, true, 2)});
  ASSERT_TRUE(WaitForSteps(0, 4));
  EXPECT_EQ(coordinator_->registrations.at(0).held(0).job_id(), "gpt");
  EXPECT_TRUE(coordinator_->registrations.at(0).held(0).alive());
  int64_t expected = 3;
  for (const v1::RankReport& report : coordinator_->CopyReportsOf(0)) {
    EXPECT_EQ(report.sequence(), expected++);
  }
  EXPECT_TRUE(IsAlive(trainer));
}

TEST_F(DaemonTest, RestartedDaemonAdoptsTrainers) {
  StartDaemon();
  coordinator_->Send(AssignMessage("steps=2;then=hang"));
  ASSERT_TRUE(WaitForSteps(0, 2));
  ASSERT_TRUE(WaitForSteps(1, 2));
  const ProcessId trainer = Trainer(0);
  daemon_.reset();  // as kill -9 would: nobody is stopped
  ASSERT_TRUE(IsAlive(trainer));
  ::kill(trainer.pid, SIGUSR1);

  coordinator_->held = {Reply(0, true, 3), Reply(1, true, 3)};
  StartDaemon();
  ASSERT_TRUE(WaitForSteps(0, 3));
  ExpectGapless(0);
  EXPECT_THAT(daemon_->metrics().Text(),
              HasSubstr("stretto_steps_total{training_job=\"gpt\",rank=\"0\"} 3"));
  EXPECT_EQ(Trainer(0), trainer);
  coordinator_->Send(StopMessage(5000));
  EXPECT_EQ(WaitForExit(0).reason(), "Cancelled");
  EXPECT_TRUE(WaitForExit(1).stopped_by_daemon());
}

TEST_F(DaemonTest, RankThatDiedWithoutADaemonIsReported) {
  StartDaemon();
  coordinator_->Send(AssignMessage("steps=2;then=hang", 1));
  ASSERT_TRUE(WaitForSteps(0, 2));
  const ProcessId trainer = Trainer(0);
  daemon_.reset();
  ::kill(trainer.pid, SIGKILL);
  ::waitpid(trainer.pid, nullptr, 0);

  coordinator_->held = {Reply(0, true, 3)};
  StartDaemon();
  const v1::RankExit exit = WaitForExit(0);
  EXPECT_EQ(exit.reason(), "ExitUnobserved");
  EXPECT_EQ(exit.exit_code(), -1);
  EXPECT_EQ(exit.step(), 2);
  EXPECT_THAT(exit.message(), HasSubstr("ended while no daemon watched it, exit status unknown"));
}

TEST_F(DaemonTest, NewerEpochKillsTheOlderOne) {
  StartDaemon();
  coordinator_->Send(AssignMessage("steps=1;then=deaf", 1, 1));
  ASSERT_TRUE(WaitForSteps(0, 1));
  coordinator_->Send(AssignMessage("steps=1;then=hang", 1, 2));
  const v1::RankExit old = WaitForExit(0);
  EXPECT_EQ(old.signal(), SIGKILL);
  EXPECT_TRUE(old.stopped_by_daemon());
  EXPECT_THAT(old.message(), HasSubstr("a newer epoch was assigned"));
}

TEST_F(DaemonTest, StaleTrainerIsAborted) {
  StartDaemon();
  coordinator_->Send(AssignMessage("steps=1;then=hang", 1, 5));
  ASSERT_TRUE(WaitForSteps(0, 1));
  auto stub = v1::TrainerService::NewStub(grpc::CreateChannel(
      "unix:" + dir_.path() + "/trainer.sock", grpc::InsecureChannelCredentials()));
  v1::AttachRequest request;
  request.set_job_uid(kUid);
  request.set_epoch(4);
  v1::AttachResponse response;
  grpc::ClientContext old_epoch;
  const grpc::Status old = stub->Attach(&old_epoch, request, &response);
  EXPECT_EQ(old.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_THAT(old.error_message(), HasSubstr("epoch 4 is not current: the epoch of that job on "
                                             "this node is 5"));
  request.set_epoch(5);
  request.set_pid(1);
  grpc::ClientContext other_pid;
  const grpc::Status other = stub->Attach(&other_pid, request, &response);
  EXPECT_EQ(other.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_THAT(other.error_message(), HasSubstr("is not process 1"));
}

TEST_F(DaemonTest, RendezvousIsPassedOnAndWaitsForACoordinatorThatIsAway) {
  StartDaemon();
  ASSERT_TRUE(coordinator_->WaitFor([&] { return coordinator_->heartbeats > 0; }));
  auto stub = v1::TrainerService::NewStub(grpc::CreateChannel(
      "unix:" + dir_.path() + "/trainer.sock", grpc::InsecureChannelCredentials()));
  const int port = coordinator_->port();
  coordinator_.reset();

  grpc::Status set;
  std::thread away([&] {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::StoreSetRequest request;
    request.set_key("rank0");
    request.set_value("10.0.0.1");
    v1::StoreSetResponse response;
    set = stub->StoreSet(&context, request, &response);
  });
  coordinator_ = std::make_unique<FakeCoordinator>(port);
  away.join();
  EXPECT_TRUE(set.ok()) << set.error_message();

  v1::StoreGetRequest request;
  request.set_key("rank0");
  v1::StoreGetResponse response;
  grpc::ClientContext context;
  EXPECT_TRUE(stub->StoreGet(&context, request, &response).ok());
  EXPECT_EQ(response.value(), "10.0.0.1");

  grpc::ClientContext hurried;
  hurried.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(100));
  request.set_key("never");
  EXPECT_EQ(stub->StoreGet(&hurried, request, &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(DaemonTest, LogsAreStreamedAndFollowedToTheEnd) {
  StartDaemon();
  coordinator_->Send(AssignMessage("steps=2;then=hang", 1));
  ASSERT_TRUE(WaitForSteps(0, 2));
  v1::CoordinatorMessage message;
  message.mutable_log_request()->set_stream(7);
  message.mutable_log_request()->set_job_uid(kUid);
  message.mutable_log_request()->set_epoch(1);
  message.mutable_log_request()->set_follow(true);
  coordinator_->Send(message);
  ASSERT_TRUE(coordinator_->WaitFor(
      [&] { return absl::StrContains(coordinator_->logs[7], "step 2 of rank 0\n"); }));
  ::kill(Trainer(0).pid, SIGUSR1);
  ASSERT_TRUE(coordinator_->WaitFor(
      [&] { return absl::StrContains(coordinator_->logs[7], "step 3 of rank 0\n"); }));
  EXPECT_EQ(coordinator_->log_ends.count(7), 0u);
  coordinator_->Send(StopMessage(5000));
  EXPECT_TRUE(coordinator_->WaitFor([&] { return coordinator_->log_ends.count(7) != 0; }));

  message.mutable_log_request()->set_stream(8);
  message.mutable_log_request()->set_rank(5);
  coordinator_->Send(message);
  ASSERT_TRUE(coordinator_->WaitFor([&] { return coordinator_->log_ends.count(8) != 0; }));
  EXPECT_THAT(coordinator_->log_ends[8].error(), HasSubstr("this node has no log of rank 5"));
}

TEST_F(DaemonTest, StoppingAsksForACheckpointFirst) {
  StartDaemon();
  coordinator_->Send(AssignMessage("steps=1;then=hang"));
  ASSERT_TRUE(WaitForSteps(0, 1));
  ASSERT_TRUE(WaitForSteps(1, 1));
  daemon_->StopTrainers();
  EXPECT_EQ(WaitForExit(0).reason(), "Cancelled");
  EXPECT_TRUE(WaitForExit(1).stopped_by_daemon());
  const auto folder = RunFolders(dir_.path()).Find({kUid, 1, 0});
  EXPECT_THAT(*ReadFile(folder->log()), HasSubstr("stop requested checkpoint=1"));
}

TEST_F(DaemonTest, CheckpointOnRequestReachesRank0AndNobodyElse) {
  StartDaemon();
  coordinator_->Send(AssignMessage("steps=1;then=hang"));
  ASSERT_TRUE(WaitForSteps(0, 1));
  ASSERT_TRUE(WaitForSteps(1, 1));
  coordinator_->Send(SaveMessage(7, /*epoch=*/9));  // of an attempt that is not here
  coordinator_->Send(SaveMessage(1));
  EXPECT_TRUE(WaitForSave(1));
  coordinator_->Send(StopMessage(5000));
  WaitForExit(0);
  WaitForExit(1);
  for (const v1::RankReport& report : coordinator_->CopyReportsOf(1)) {
    EXPECT_FALSE(report.has_checkpoint());
  }
}

// The request comes right after the assignment, before the process has started.
TEST_F(DaemonTest, CheckpointOnRequestWaitsForATrainerThatIsNotConnected) {
  StartDaemon();
  coordinator_->Send(AssignMessage("steps=1;then=hang"));
  coordinator_->Send(SaveMessage(1));
  EXPECT_TRUE(WaitForSave(1));
  ASSERT_TRUE(WaitForSteps(1, 1));  // a trainer that never saw this daemon ends without it
  // The next daemon hears of it from the coordinator, and its trainer connects a little later.
  daemon_.reset();
  coordinator_->held = {Reply(0, true, 0), Reply(1, true, 0)};
  StartDaemon();
  ASSERT_TRUE(coordinator_->WaitFor([&] { return coordinator_->registrations.size() == 2; }));
  coordinator_->Send(SaveMessage(2));
  EXPECT_TRUE(WaitForSave(2));
}

TEST_F(DaemonTest, TrainerThatCannotStartFailsItsGang) {
  StartDaemon();
  v1::CoordinatorMessage message = AssignMessage("steps=1;then=hang");
  message.mutable_assign()->mutable_ranks(1)->set_slot(7);
  coordinator_->Send(message);
  const v1::RankExit exit = WaitForExit(1);
  EXPECT_EQ(exit.reason(), "SlotUnknown");
  EXPECT_EQ(exit.exit_code(), 127);
  EXPECT_THAT(exit.message(), HasSubstr("rank 1 of job gpt did not start: slot 7 does not exist: "
                                        "this node has 2 slots"));
  EXPECT_TRUE(WaitForExit(0).stopped_by_daemon());
}

TEST_F(DaemonTest, RefusesBadOptions) {
  const auto refused = [&](const DaemonOptions& options) {
    return Daemon::Start(options, Clock::Real()).status();
  };
  DaemonOptions options = Options();
  options.state_dir = "/tmp/" + std::string(100, 'x');
  EXPECT_EQ(refused(options).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused(options).message()),
              HasSubstr("is too long: its socket path has 118 bytes, at most 107 fit"));

  options = Options();
  options.metrics_listen = "0.0.0.0:0";
  EXPECT_EQ(refused(options).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(refused(options).message(),
            "--metrics-listen 0.0.0.0:0 is beyond loopback, and nothing there is encrypted or "
            "authenticated; allow it with --insecure-metrics-beyond-loopback");

  options = Options();
  options.coordinator = "10.1.2.3:7000";
  EXPECT_EQ(refused(options).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refused(options).message()),
              HasSubstr("give --tls-ca, --tls-certificate and --tls-key"));

  options = Options();
  options.coordinator += ",10.1.2.3:7000";
  EXPECT_THAT(std::string(refused(options).message()),
              HasSubstr("--coordinator 10.1.2.3:7000 is beyond loopback"));

  options = Options();
  options.coordinator += ",nowhere";
  EXPECT_EQ(refused(options).message(), "--coordinator: found \"nowhere\", expected HOST:PORT");

  options = Options();
  options.interface_address = "10.1.2.3";
  EXPECT_THAT(std::string(refused(options).message()),
              HasSubstr("allow it with --insecure-tensors-beyond-loopback"));

  options = Options();
  options.tls.ca = "/no/ca";
  EXPECT_THAT(std::string(refused(options).message()), HasSubstr("found only --tls-ca"));

  options = Options();
  options.name = "Not A Name";
  EXPECT_THAT(std::string(refused(options).message()), HasSubstr("--name is \"Not A Name\""));

  options = Options();
  options.trainer_binary = "/no/such/trainer";
  EXPECT_THAT(std::string(refused(options).message()),
              HasSubstr("--trainer /no/such/trainer is not an executable file"));

  StartDaemon();
  TempDir other;
  options = Options();
  options.state_dir = other.path();
  options.metrics_listen = absl::StrCat("127.0.0.1:", daemon_->metrics_port());
  EXPECT_EQ(refused(options).code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(
      std::string(refused(options).message()),
      HasSubstr(absl::StrCat("metrics: cannot listen on 127.0.0.1:", daemon_->metrics_port())));
}

TEST_F(DaemonTest, EachDangerHasAFlagOfItsOwn) {
  DaemonOptions options = Options();
  options.metrics_listen = "0.0.0.0:0";
  options.interface_address = "10.1.2.3";
  options.insecure_metrics_beyond_loopback = true;
  options.insecure_tensors_beyond_loopback = true;
  EXPECT_TRUE(CompleteOptions(&options).ok()) << CompleteOptions(&options);
  // With TLS the coordinator may be anywhere.
  options.coordinator = "10.1.2.3:7000";
  EXPECT_TRUE(absl::IsPermissionDenied(CompleteOptions(&options)));
  tls::TestCa ca;
  options.tls = ca.Write(dir_.path(), "tls", tls::WorkerCertificate("node-a"));
  EXPECT_TRUE(CompleteOptions(&options).ok()) << CompleteOptions(&options);
  options.name = "node-b";
  EXPECT_EQ(CompleteOptions(&options).message(),
            absl::StrCat("--tls-certificate ", options.tls.certificate,
                         ": found the certificate of worker node-a, expected one of --name node-b "
                         "or without a name"));
}

}  // namespace
}  // namespace stretto::daemon
