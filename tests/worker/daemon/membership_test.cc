// SPDX-License-Identifier: Apache-2.0

// A daemon and the cluster that it belongs to: what happens to its trainers when a coordinator does
// not know them, and how it finds the coordinator that leads.

#include <poll.h>

#include <set>

#include "tests/worker/daemon/daemon_fixture.h"
#include "worker/daemon/state_dir.h"
#include "worker/report/report_log.h"

namespace stretto::daemon {
namespace {

using ::testing::HasSubstr;

class MembershipTest : public DaemonTest {};

// Politely: SIGTERM asks a trainer to save its state.
TEST_F(MembershipTest, TrainersTheCoordinatorDoesNotWantAreAskedToEndAndThenKilled) {
  StartDaemon();
  coordinator_->Send(AssignMessage("steps=1;then=hang;rank1=deaf"));
  ASSERT_TRUE(WaitForSteps(0, 1));
  ASSERT_TRUE(WaitForSteps(1, 1));
  const auto folder = RunFolders(dir_.path()).Find({kUid, 1, 0});
  FileDescriptor polite = *WatchProcess(Trainer(0)), deaf = *WatchProcess(Trainer(1));
  daemon_.reset();
  coordinator_->held = {Reply(0, false, 0), Reply(1, false, 0)};
  StartDaemon();
  for (const FileDescriptor* watch : {&polite, &deaf}) {
    pollfd descriptor{watch->get(), POLLIN, 0};
    EXPECT_EQ(::poll(&descriptor, 1, 20'000), 1);
  }
  const std::vector<v1::RankReport> reports = *ReadAfter(folder->reports(), 0);
  ASSERT_FALSE(reports.empty());
  EXPECT_EQ(reports.back().exit().reason(), "Cancelled");
}

TEST_F(MembershipTest, RemembersItsClusterAndTheNewestEpoch) {
  StartDaemon();
  coordinator_->Send(AssignMessage("steps=1;then=complete", 1, 7));
  WaitForExit(0);
  daemon_.reset();
  EXPECT_EQ(ReadMembership(dir_.path()).value(), (Membership{"here", 7}));
  StartDaemon();
  ASSERT_TRUE(coordinator_->WaitFor([&] { return coordinator_->registrations.size() == 2; }));
  EXPECT_EQ(coordinator_->registrations[0].cluster_id(), "");
  EXPECT_EQ(coordinator_->registrations[1].cluster_id(), "here");
  EXPECT_EQ(coordinator_->registrations[1].newest_epoch(), 7);
}

// Whoever is at that address now, the trainers live on.
TEST_F(MembershipTest, ARefusalByAnotherClusterEndsNoTrainer) {
  StartDaemon();
  coordinator_->Send(AssignMessage("steps=1;then=hang", 1));
  ASSERT_TRUE(WaitForSteps(0, 1));
  const ProcessId trainer = Trainer(0);
  daemon_.reset();
  coordinator_->refusal =
      grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "worker belongs to cluster here");
  StartDaemon();
  pollfd event = {daemon_->event_fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&event, 1, 20'000), 1);
  EXPECT_THAT(std::string(daemon_->refusal()->message()), HasSubstr("belongs to cluster here"));
  daemon_.reset();
  EXPECT_TRUE(IsAlive(trainer));
}

TEST_F(MembershipTest, AJoinForgetsTheFormerCluster) {
  ASSERT_TRUE(WriteMembership(dir_.path(), {"elsewhere", 9}).ok());
  DaemonOptions options = Options();
  options.join_new_cluster = true;
  daemon_ = Daemon::Start(options, *clock_).value();
  ASSERT_TRUE(coordinator_->WaitFor([&] { return coordinator_->heartbeats >= 1; }));
  EXPECT_EQ(coordinator_->registrations[0].cluster_id(), "");
  EXPECT_EQ(coordinator_->registrations[0].newest_epoch(), 0);
  EXPECT_EQ(ReadMembership(dir_.path()).value(), (Membership{"here", 0}));
}

TEST_F(MembershipTest, ADamagedMembershipIsRefusedNamingTheFile) {
  for (const char* text : {"", "here", "here x", "here -1", " 3", "a b c"}) {
    ASSERT_TRUE(WriteFileAtomic(dir_.path() + "/cluster", text).ok());
    const absl::Status status = Daemon::Start(Options(), *clock_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(dir_.path() + "/cluster: found "));
  }
}

TEST_F(MembershipTest, OfSeveralCoordinatorsTheOneThatLeadsIsFound) {
  FakeCoordinator standby(0, {}, grpc::Status(grpc::StatusCode::UNAVAILABLE, "standby"));
  DaemonOptions options = Options();
  options.coordinator =
      absl::StrCat("127.0.0.1:1,", standby.address(), ",", coordinator_->address());
  StartDaemon(options);
  ASSERT_TRUE(coordinator_->WaitFor([&] { return coordinator_->heartbeats >= 1; }));
}

TEST_F(MembershipTest, AWorkerFollowsTheLeadershipToAnotherAddress) {
  auto next = std::make_unique<FakeCoordinator>();
  DaemonOptions options = Options();
  options.coordinator = absl::StrCat(coordinator_->address(), ",", next->address());
  StartDaemon(options);
  ASSERT_TRUE(coordinator_->WaitFor([&] { return coordinator_->heartbeats >= 1; }));
  coordinator_.reset();
  ASSERT_TRUE(next->WaitFor([&] { return next->heartbeats >= 1; }));
  coordinator_ = std::move(next);
}

TEST_F(MembershipTest, DenialBeforeTheFirstRegistrationEndsIt) {
  coordinator_->refusal =
      grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "found the certificate of worker node-z");
  StartDaemon();
  pollfd event = {daemon_->event_fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&event, 1, 20'000), 1);
  ASSERT_TRUE(daemon_->refusal().has_value());
  EXPECT_THAT(std::string(daemon_->refusal()->message()), HasSubstr("refused worker node-a"));
}

// Over a new connection, because only that shows a certificate that was replaced.
TEST_F(MembershipTest, LaterADenialIsTriedAgainOverANewConnection) {
  StartDaemon();
  ASSERT_TRUE(coordinator_->WaitFor([&] { return coordinator_->heartbeats >= 1; }));
  const int port = coordinator_->port();
  coordinator_.reset();
  coordinator_ = std::make_unique<FakeCoordinator>(
      port, std::vector<v1::HeldRankReply>{},
      grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "not you"));
  ASSERT_TRUE(coordinator_->WaitFor([&] { return coordinator_->refused >= 3; }));
  EXPECT_FALSE(daemon_->refusal().has_value());
  daemon_.reset();
  const std::vector<std::string>& peers = coordinator_->refused_peers;
  EXPECT_EQ(std::set<std::string>(peers.begin(), peers.end()).size(), peers.size());
}

}  // namespace
}  // namespace stretto::daemon
