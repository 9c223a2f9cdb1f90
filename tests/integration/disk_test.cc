// SPDX-License-Identifier: Apache-2.0

// Full disks and one that becomes read-only, each its own in a mount namespace of this process.

#include <signal.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/integration/cluster.h"
#include "tests/integration/machine_faults.h"

namespace stretto::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class DiskTest : public ClusterTest {
 protected:
  ~DiskTest() override { KillAll(); }  // before the disk goes
  std::string MountSmallDisk(const std::string& path, int kib) {
    disk_ = std::make_unique<SmallDisk>(path, kib);
    return disk_->why_not();
  }

  // Longer than the leases of tests with --lease 1.
  void AwaitTicksThatAreNotStored(const std::string& job, int last_step) {
    ASSERT_TRUE(Eventually([&] {
      constexpr size_t kTicks = 6;  // of half a second
      const std::vector<std::string> ticks = absl::StrSplit(coordinator().err(), "tick not stored");
      return ticks.size() > kTicks && LoggedStep(job, 0) == last_step;
    }));
  }

  std::unique_ptr<SmallDisk> disk_;
  std::unique_ptr<FailingDisk> failing_;
};

TEST_F(DiskTest, FullDiskUnderCheckpointsIsNotedAndTrainingGoesOnButMustBeSavedInTheEnd) {
  // A checkpoint of gpt-tiny has 1.6 MB: the third does not fit.
  const std::string why = MountSmallDisk(checkpoint_root_, 4096);
  if (!why.empty()) GTEST_SKIP() << why;
  StartCluster();
  const Json job = RunJob({.name = "cramped",
                           .steps = 20,
                           .more = "checkpoint: {interval_steps: 5, keep: 0}\n"
                                   "optimizer: {decay_steps: 30}\n"},
                          "failed");
  EXPECT_EQ(Int(job["progress"]["steps"]), 20);
  const Json checkpointed = ConditionOf(job, "Checkpointed");
  EXPECT_EQ(checkpointed["status"], "false");
  EXPECT_EQ(checkpointed["reason"], "CheckpointFailed");
  EXPECT_THAT(checkpointed["message"].get<std::string>(),
              AllOf(HasSubstr("step 20: "), HasSubstr("safetensors"),
                    HasSubstr("No space left on device")));
  EXPECT_EQ(job["progress"]["last_checkpoint"], "step-00000010");
  const Json ended = ConditionOf(job, "Succeeded");
  EXPECT_EQ(ended["reason"], "CheckpointFailed");
  EXPECT_THAT(ended["message"].get<std::string>(),
              AllOf(HasSubstr("the last checkpoint could not be written: "),
                    HasSubstr("No space left on device")));
  // The older checkpoints are whole: a run continues from them.
  const Json next = RunJob({.name = "after",
                            .steps = 12,
                            .more = "checkpoint: {resume_from: cramped, disabled: true}\n"
                                    "optimizer: {decay_steps: 30}\n"});
  EXPECT_EQ(NumbersOf(Steps("after")), Range(11, 12));
}

TEST_F(DiskTest, FullDiskUnderLogsIsNotedAndNoStepIsLost) {
  const std::string state = Path("small");
  const std::string why = MountSmallDisk(state, 1024);
  if (!why.empty()) GTEST_SKIP() << why;
  StartCoordinator();
  StartWorker("node-a", 2, {"--state-dir", state});
  ASSERT_EQ(Stretto(Submit({.name = "mute", .steps = 30, .more = kSlow}, {})).code, 0);
  AwaitStep("mute", 2);
  FillDisk(state + "/filler");
  const Json job = AwaitState("mute", "succeeded");
  const Json intact = ConditionOf(job, "LogIntact");
  EXPECT_EQ(intact["status"], "false");
  EXPECT_EQ(intact["reason"], "DiskFull");
  EXPECT_THAT(intact["message"].get<std::string>(),
              AllOf(HasSubstr("/reports.log"), HasSubstr("No space left on device")));
  EXPECT_EQ(NumbersOf(Steps("mute")), Range(1, 30));
  EXPECT_EQ(Int(job["progress"]["rank_ledgers"][1]["steps"]), 30);
}

// Longer than lease and grace together, so that a job that could be harmed would be. The job ends
// meanwhile, and the coordinator hears of it when there is room.
TEST_F(DiskTest, FullDiskUnderTheCoordinatorHarmsNoJobAndNewOnesAreRefused) {
  const std::string why = MountSmallDisk(Path("coordinator"), 1024);
  if (!why.empty()) GTEST_SKIP() << why;
  StartCoordinator({"--lease", "1", "--lost-rank-timeout", "1"});
  StartWorker("node-a", 2);
  ASSERT_EQ(Stretto(Submit({.name = "steady", .steps = 30, .more = kSlow}, {})).code, 0);
  AwaitStep("steady", 2);
  const pid_t trainer = TrainerPid("steady", 0);
  const std::string filler = Path("coordinator/filler");
  FillDisk(filler);
  ASSERT_TRUE(Eventually([&] {
    const std::string page = Fetch(metrics_port_, "/readyz");
    return absl::StrContains(page, "503") && absl::StrContains(page, "disk is full");
  }));
  const Outcome refused = Stretto(Submit({.name = "late", .steps = 2}, {}));
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.err,
              HasSubstr("disk is full. Nothing new is accepted until it has room; jobs that run "
                        "continue"));
  EXPECT_THAT(Metrics(metrics_port_), HasSubstr("stretto_store_writable 0"));
  AwaitTicksThatAreNotStored("steady", 30);
  EXPECT_EQ(Job("steady")["state"], "running");
  std::filesystem::remove(filler);
  ASSERT_TRUE(
      Eventually([&] { return absl::StrContains(Fetch(metrics_port_, "/readyz"), "200 OK"); }));
  EXPECT_THAT(Metrics(metrics_port_), HasSubstr("stretto_store_writable 1"));
  AwaitState("steady", "succeeded");
  EXPECT_EQ(TrainerPid("steady", 0), trainer);
  EXPECT_EQ(NumbersOf(Steps("steady")), Range(1, 30));
  RunJob({.name = "late", .steps = 2});
}

// The kernel makes a disk read-only when its device fails. An operator stops the coordinator,
// repairs the disk and starts it again.
TEST_F(DiskTest, ReadOnlyDiskUnderTheCoordinatorHarmsNoJobAndNewOnesAreRefused) {
  const std::string state = Path("coordinator");
  failing_ = std::make_unique<FailingDisk>(state, Path("disk"));
  if (!failing_->why_not().empty()) GTEST_SKIP() << failing_->why_not();
  const Arguments flags = {"--lease", "1", "--lost-rank-timeout", "1"};
  StartCoordinator(flags);
  StartWorker("node-a", 2);
  ASSERT_EQ(Stretto(Submit({.name = "steady", .steps = 30, .more = kSlow}, {})).code, 0);
  AwaitStep("steady", 2);
  const pid_t trainer = TrainerPid("steady", 0);
  ASSERT_EQ(Stretto(Submit({.name = "waits", .steps = 2}, {})).code, 0);
  failing_->Fail();
  const std::string why = absl::StrCat("job store ", state, "/coordinator.db: ");
  const std::string what_now =
      "Read-only file system. Nothing new is accepted until it can be written; jobs that run "
      "continue";
  ASSERT_TRUE(Eventually([&] {
    const std::string page = Fetch(metrics_port_, "/readyz");
    return absl::StrContains(page, "503") && absl::StrContains(page, what_now);
  }));
  const Outcome refused = Stretto(Submit({.name = "late", .steps = 2}, {}));
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr(why), HasSubstr(what_now)));
  EXPECT_THAT(Metrics(metrics_port_), HasSubstr("stretto_store_writable 0"));
  AwaitTicksThatAreNotStored("steady", 30);
  EXPECT_EQ(Job("steady")["state"], "running");
  coordinator().Signal(SIGTERM);
  EXPECT_EQ(coordinator().Wait(), 0) << coordinator().err();
  EXPECT_THAT(RunDaemon(CoordinatorArgv(flags)).err,
              HasSubstr(state + "/lock: Read-only file system"));

  failing_->Repair();
  StartCoordinator(flags);
  const Json job = AwaitState("steady", "succeeded");
  EXPECT_EQ(job["attempt"], 1);
  EXPECT_EQ(TrainerPid("steady", 0), trainer);
  EXPECT_EQ(NumbersOf(Steps("steady")), Range(1, 30));
  AwaitState("waits", "succeeded");
  RunJob({.name = "late", .steps = 2});
}

}  // namespace
}  // namespace stretto::integration
