// SPDX-License-Identifier: Apache-2.0
#pragma once
// A coordinator in this process, a state folder, and messages for a job called "gpt".

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <memory>
#include <string>

#include "tests/worker/daemon/fake_coordinator.h"
#include "tests/worker/daemon/temp_dir.h"
#include "worker/daemon/daemon.h"
#include "worker/daemon/process.h"

namespace stretto::daemon {

inline constexpr char kUid[] = "0123456789abcdef0123456789abcdef";
inline constexpr char kBinaries[] = STRETTO_BINARY_DIR;

inline v1::CoordinatorMessage AssignMessage(const std::string& behaviour, int ranks = 2,
                                            int epoch = 1) {
  v1::CoordinatorMessage message;
  v1::Assign* assign = message.mutable_assign();
  assign->set_job_id("gpt");
  assign->set_job_uid(kUid);
  assign->set_epoch(epoch);
  assign->set_world_size(ranks);
  assign->mutable_spec()->mutable_data()->set_prefix(behaviour);
  for (int rank = 0; rank < ranks; ++rank) {
    assign->add_ranks()->set_rank(rank);
    assign->mutable_ranks(rank)->set_slot(rank);
  }
  return message;
}

inline v1::CoordinatorMessage StopMessage(int grace_ms, int epoch = 1) {
  v1::CoordinatorMessage message;
  message.mutable_stop()->set_job_uid(kUid);
  message.mutable_stop()->set_epoch(epoch);
  message.mutable_stop()->set_reason("cancelled by a user");
  *message.mutable_stop()->mutable_grace() =
      google::protobuf::util::TimeUtil::MillisecondsToDuration(grace_ms);
  return message;
}

inline v1::CoordinatorMessage SaveMessage(int64_t request, int epoch = 1) {
  v1::CoordinatorMessage message;
  message.mutable_save()->set_job_uid(kUid);
  message.mutable_save()->set_epoch(epoch);
  message.mutable_save()->set_request(request);
  return message;
}

inline v1::HeldRankReply Reply(int rank, bool keep, int64_t acked, int epoch = 1) {
  v1::HeldRankReply reply;
  reply.set_job_uid(kUid);
  reply.set_epoch(epoch);
  reply.set_rank(rank);
  reply.set_keep(keep);
  reply.set_acked_sequence(acked);
  return reply;
}

class DaemonTest : public ::testing::Test {
 protected:
  void SetUp() override { coordinator_ = std::make_unique<FakeCoordinator>(); }

  void TearDown() override {
    daemon_.reset();
    coordinator_.reset();
    for (const StoredRun& run : RunFolders(dir_.path()).Scan()) {  // leave nobody behind
      if (run.process.has_value()) SignalGroup(*run.process, SIGKILL);
    }
    while (::waitpid(-1, nullptr, 0) > 0) {
    }
  }

  DaemonOptions Options() const {
    DaemonOptions options;
    options.coordinator = coordinator_->address();
    options.name = "node-a";
    options.slots = 2;
    options.state_dir = dir_.path();
    options.trainer_binary = std::string(kBinaries) + "/fake-trainer";
    options.stop_grace = absl::Seconds(5);
    options.nvml_library = nvml_library_;
    return options;
  }

  void StartDaemon() { StartDaemon(Options()); }
  void StartDaemon(const DaemonOptions& options) {
    absl::StatusOr<std::unique_ptr<Daemon>> daemon = Daemon::Start(options, *clock_);
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = *std::move(daemon);
  }

  ProcessId Trainer(int rank, int epoch = 1) const {
    const auto folder = RunFolders(dir_.path()).Find({kUid, epoch, rank});
    EXPECT_TRUE(folder.ok()) << folder.status();
    return *folder->ReadProcess();
  }

  // The number of steps the coordinator has of a rank.
  bool WaitForSteps(int rank, int steps) {
    return coordinator_->WaitFor([&] {
      for (const v1::RankReport& report : coordinator_->ReportsOf(rank)) {
        if (report.has_step() && report.step().step() == steps) return true;
      }
      return false;
    });
  }
  // A report of rank 0 that answers this request for a checkpoint.
  bool WaitForSave(int64_t request) {
    return coordinator_->WaitFor([&] {
      for (const v1::RankReport& report : coordinator_->ReportsOf(0)) {
        if (report.checkpoint().request() == request) return true;
      }
      return false;
    });
  }
  v1::RankExit WaitForExit(int rank) {
    v1::RankExit exit;
    EXPECT_TRUE(coordinator_->WaitFor([&] {
      const v1::RankExit* found = coordinator_->ExitOf(rank);
      if (found != nullptr) exit = *found;
      return found != nullptr;
    })) << "rank "
        << rank;
    return exit;
  }
  void ExpectGapless(int rank) {
    int64_t expected = 1;
    for (const v1::RankReport& report : coordinator_->CopyReportsOf(rank)) {
      EXPECT_EQ(report.sequence(), expected++);
    }
  }

  TempDir dir_;
  FakeClock fake_clock_;
  const Clock* clock_ = &Clock::Real();  // or the other
  std::string nvml_library_;             // none: the GPUs of this machine are not the tests'
  std::unique_ptr<FakeCoordinator> coordinator_;
  std::unique_ptr<Daemon> daemon_;
};

}  // namespace stretto::daemon
