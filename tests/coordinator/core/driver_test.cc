// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "coordinator/store/job_store.h"
#include "tests/coordinator/core/scene.h"

namespace stretto::coordinator::testing {
namespace {

using ::testing::Contains;
using ::testing::Not;
using ::testing::StartsWith;

TEST(DriverTest, EverythingIsPersistedBeforeAnythingIsSent) {
  Scene scene;
  scene.Register("a", 1);
  scene.TakeLog();
  scene.Submit("j", 1);
  bool sent = false;
  for (const std::string& line : scene.TakeLog()) {
    sent |= absl::StartsWith(line, "send") || absl::StartsWith(line, "watch");
    EXPECT_FALSE(sent && absl::StartsWith(line, "persist")) << line;
  }
  EXPECT_TRUE(sent);
}

TEST(DriverTest, WhatCannotBeStoredIsNotSentAndIsTakenBack) {
  Scene scene;
  scene.Register("a", 1);
  scene.TakeLog();
  scene.store().FailCommit(1);

  const Result result = scene.Submit("j", 1, "r");

  EXPECT_EQ(result.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(result.status.message(), "commit of 2 records: fault injected, nothing stored");
  EXPECT_THAT(scene.TakeLog(), Not(Contains(StartsWith("send"))));
  EXPECT_EQ(scene.core().FindJob("j"), nullptr);
  EXPECT_EQ(scene.core().FindJobByUid("uid-j"), nullptr);
  EXPECT_EQ(scene.core().FreeSlots("a"), 1);
  EXPECT_TRUE(scene.Submit("j", 1, "r").status.ok());
  EXPECT_EQ(scene.job("j").state, JobState::kPreparing);
  EXPECT_EQ(scene.job("j").epoch, Epoch(2));  // 1 may have been stored: never used again
}

TEST(DriverTest, ReportThatCannotBeStoredIsNotAcknowledged) {
  Scene scene;
  scene.Register("a", 1);
  scene.Submit("j", 1);
  scene.Prepare("j");
  scene.TakeLog();
  scene.store().FailCommit(1);
  EXPECT_FALSE(scene.Exit("j", 0, Completed()).status.ok());
  EXPECT_EQ(scene.job("j").state, JobState::kRunning);
  EXPECT_THAT(scene.TakeLog(), Not(Contains(StartsWith("send"))));
  scene.Replay("j", 0, 2);
  EXPECT_EQ(scene.job("j").state, JobState::kSucceeded);
  EXPECT_EQ(scene.job("j").summary.str(), "summary of j");
}

TEST(DriverTest, RegistrationThatCannotBeStoredLeavesTheWorkerOut) {
  Scene scene;
  scene.store().FailCommit(1);
  EXPECT_FALSE(scene.Register("a", 1).status.ok());
  EXPECT_EQ(scene.core().FindWorker("a"), nullptr);
  EXPECT_TRUE(scene.Register("a", 1).status.ok());
}

TEST(DriverTest, CommitWithALostResponseIsRepairedByTheNextOne) {
  Scene scene;
  scene.Register("a", 1);
  scene.store().FailCommit(1, FaultyStore::Fault::kResponseLost);
  EXPECT_FALSE(scene.Submit("j", 1).status.ok());
  ASSERT_EQ(scene.store().Load()->jobs.size(), 1u);  // the store has it, the core does not

  scene.Submit("k", 1);

  const Snapshot snapshot = *scene.store().Load();
  ASSERT_EQ(snapshot.jobs.size(), 1u);
  EXPECT_EQ(snapshot.jobs[0], *scene.core().FindJob("k"));
  EXPECT_EQ(snapshot.epoch.last, Epoch(2));
  scene.Restart();  // would be DataLoss if both held the slot
  EXPECT_EQ(scene.job("k").state, JobState::kPreparing);
}

TEST(DriverTest, SummaryIsStoredWithTheTransitionThatEndsTheJob) {
  Scene scene;
  scene.Register("a", 1);
  scene.Submit("j", 1);
  EXPECT_EQ(scene.store().Load()->jobs[0].summary.str(), "");
  scene.Prepare("j");
  scene.Complete("j");
  EXPECT_EQ(scene.store().Load()->jobs[0].summary.str(), "summary of j");
}

// A store that fails with any code.
class BrokenStore : public Persistence {
 public:
  absl::Status Commit(const std::vector<Record>&) override { return status; }
  absl::Status status;
};

class NobodyListens : public Transport {
 public:
  void SendToWorker(const Send&) override {}
  void JobChanged(const JobRecord&) override {}
  void JobDeleted(const ErasedJob&) override {}
  void WorkerChanged(const Worker&) override {}
  std::string FinalSummary(const JobRecord&) override { return ""; }
};

// Callers act by the code: a daemon ends for ever after FAILED_PRECONDITION, and CreateJob takes
// ALREADY_EXISTS for a job of that name.
TEST(DriverTest, AStoreThatCannotStoreIsUnavailableFullOrDamaged) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "database is locked");
    BrokenStore store;
    store.status = status;
    NobodyListens nobody;
    Driver driver(Core(CoreOptions()), store, nobody);
    CreateJob create;
    create.job_id = create.uid = "j";
    create.device_kind = 1;
    const absl::Status seen = driver.Submit(create, {}).status;
    const bool kept = absl::IsResourceExhausted(status) || absl::IsDataLoss(status);
    EXPECT_EQ(seen, kept ? status : absl::UnavailableError("database is locked")) << status;
  }
}

// A driver whose time the test moves: one worker trains a job.
class StandstillTest : public ::testing::Test, public Transport {
 protected:
  StandstillTest() {
    EXPECT_TRUE(Register(1).status.ok());
    CreateJob create;
    create.job_id = create.uid = "j";
    create.device_kind = 1;
    EXPECT_TRUE(Do(create).status.ok());
  }
  void SendToWorker(const Send&) override {}
  void JobChanged(const JobRecord&) override {}
  void JobDeleted(const ErasedJob&) override {}
  void WorkerChanged(const Worker&) override {}
  std::string FinalSummary(const JobRecord&) override { return ""; }

  Result Register(int64_t session) {
    return Do(WorkerRegistered{.id = "a",
                               .incarnation = "i1",
                               .host = "",
                               .build = "",
                               .devices = {{.slot = 0, .kind = 1, .description = ""}},
                               .held = {},
                               .session = session});
  }
  Result Do(const Event& event) { return driver_.Submit(event, {.steady = now_}); }
  // Rounds of half a second, each with a heartbeat before its tick while the worker is alive.
  void Pass(absl::Duration duration, bool alive) {
    for (const absl::Duration end = now_ + duration; now_ < end;) {
      now_ += absl::Milliseconds(500);
      if (alive) Do(WorkerHeartbeat{"a", 1});
      Do(Tick{});
    }
  }
  bool ready() {
    return driver_.Read([](const Core& core) { return core.FindWorker("a")->ready(); });
  }
  // No patience with a run beyond that with its ranks.
  static CoreOptions Options() {
    CoreOptions options;
    options.lost_run_timeout = options.lost_rank_timeout;
    return options;
  }
  bool failed() {
    return driver_.Read(
        [](const Core& core) { return core.FindJob("j")->first_failure.has_value(); });
  }

  std::unique_ptr<JobStore> memory_ = NewMemoryStore();
  FaultyStore store_{*memory_};
  Driver driver_{Core(Options()), store_, *this};
  absl::Duration now_ = absl::Seconds(100);
};

TEST_F(StandstillTest, SilentWorkerIsLostAfterItsLeaseAndItsRanksLater) {
  Pass(absl::Seconds(10), /*alive=*/true);
  Pass(absl::Seconds(9.5), /*alive=*/false);
  EXPECT_TRUE(ready());
  Pass(absl::Seconds(0.5), /*alive=*/false);
  EXPECT_FALSE(ready());
  Pass(absl::Seconds(4.5), /*alive=*/false);
  EXPECT_FALSE(failed());
  Pass(absl::Seconds(0.5), /*alive=*/false);
  EXPECT_TRUE(failed());
}

TEST_F(StandstillTest, PauseOfTheCoordinatorHarmsNobody) {
  Pass(absl::Seconds(1), /*alive=*/true);
  now_ += absl::Seconds(40);
  Do(Tick{});  // before the heartbeats that arrived meanwhile
  EXPECT_TRUE(ready());
  Pass(absl::Seconds(1), /*alive=*/true);
  EXPECT_TRUE(ready());
  EXPECT_FALSE(failed());
}

TEST_F(StandstillTest, PauseShortensNoLeaseThatHadBegunToRunOut) {
  Pass(absl::Seconds(1), /*alive=*/true);
  Pass(absl::Seconds(8), /*alive=*/false);
  now_ += absl::Hours(1);
  Do(Tick{});
  Pass(absl::Seconds(0.5), /*alive=*/false);
  EXPECT_TRUE(ready());
  Pass(absl::Seconds(0.5), /*alive=*/false);
  EXPECT_FALSE(ready());
}

TEST_F(StandstillTest, LeaseThatEndsDuringAPauseDoesNotEndInTheRoundAfterIt) {
  Pass(absl::Seconds(1), /*alive=*/true);
  Pass(absl::Seconds(9.5), /*alive=*/false);
  now_ += absl::Seconds(40);
  Do(Tick{});
  EXPECT_TRUE(ready());
  Pass(absl::Seconds(1), /*alive=*/true);
  EXPECT_TRUE(ready());
}

TEST_F(StandstillTest, FullDiskHarmsNobody) {
  Pass(absl::Seconds(1), /*alive=*/true);
  store_.RefuseAll(true);
  EXPECT_FALSE(Do(CancelJob{"j"}).status.ok());
  EXPECT_FALSE(Do(WorkerDisconnected{"a", 1}).status.ok());
  Pass(absl::Seconds(45), /*alive=*/false);  // it cannot register: that could not be stored
  store_.RefuseAll(false);
  Do(Tick{});
  EXPECT_TRUE(ready());
  EXPECT_FALSE(failed());
  Pass(absl::Seconds(9), /*alive=*/false);
  EXPECT_TRUE(ready());
  Pass(absl::Seconds(1.5), /*alive=*/false);
  EXPECT_FALSE(ready());
}

// Its worker waits before it tries again.
TEST_F(StandstillTest, RegistrationThatCannotBeStoredBeginsALease) {
  EXPECT_TRUE(Do(WorkerDisconnected{"a", 1}).status.ok());
  Pass(absl::Seconds(14), /*alive=*/false);
  store_.FailCommit(1);
  EXPECT_FALSE(Register(2).status.ok());
  EXPECT_FALSE(ready());
  Pass(absl::Seconds(14.5), /*alive=*/false);
  EXPECT_FALSE(failed());
  Pass(absl::Seconds(1), /*alive=*/false);
  EXPECT_TRUE(failed());
}

TEST_F(StandstillTest, RefusedCommitStopsTheClockOnlyUntilTheNextTick) {
  store_.FailCommit(1);
  EXPECT_FALSE(Do(CancelJob{"j"}).status.ok());
  Pass(absl::Seconds(10.5), /*alive=*/false);
  EXPECT_FALSE(ready());
}

}  // namespace
}  // namespace stretto::coordinator::testing
