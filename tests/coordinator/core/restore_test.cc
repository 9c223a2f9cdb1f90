// SPDX-License-Identifier: Apache-2.0

// What becomes of stored records that lack a part or contradict each other.

#include <gtest/gtest.h>

#include "coordinator/core/core.h"
#include "tests/coordinator/core/scene.h"

namespace stretto::coordinator::testing {
namespace {

// As a repair may leave it.
TEST(RestoreTest, AWorkerWhoseRecordIsLostMayComeBack) {
  Scene scene;
  scene.Register("a", 1);
  scene.Register("b", 1);
  scene.Submit("j", 2);
  scene.Prepare("j");
  ASSERT_EQ(scene.job("j").state, JobState::kRunning);
  Snapshot snapshot = *scene.store().Load();
  std::erase_if(snapshot.workers, [](const WorkerRecord& worker) { return worker.id == "b"; });
  Core core = *Core::Restore(snapshot, {}, absl::UnixEpoch());
  const auto pass_to = [&core](absl::Duration time) {
    for (int i = 0; i < 2; ++i) core.Apply(Tick{}, {.wall = absl::UnixEpoch(), .steady = time});
    return core.FindJob("j")->state;
  };
  EXPECT_EQ(pass_to(absl::Seconds(19)), JobState::kRunning);
  EXPECT_FALSE(core.FindWorker("b")->ready());
  WorkerRegistered event;
  event.id = "b";
  event.incarnation = "i1";
  event.session = 1;
  event.devices.push_back({.slot = 0, .kind = 1, .description = ""});
  event.held.push_back({.job_uid = "uid-j", .epoch = Epoch(1), .rank = Rank::Of(1), .alive = true});
  Core lost = core;
  const Effects effects = core.Apply(event, {.wall = absl::UnixEpoch(), .steady = {}});
  ASSERT_TRUE(effects.status.ok()) << effects.status;
  EXPECT_TRUE(std::get<SendRegistered>(effects.sends.at(0).message).held.at(0).keep);
  EXPECT_EQ(core.FindJob("j")->state, JobState::kRunning);
  // If it does not, its rank is given up like every other.
  for (int i = 0; i < 2; ++i)
    lost.Apply(Tick{}, {.wall = absl::UnixEpoch(), .steady = absl::Minutes(6)});
  EXPECT_EQ(lost.FindJob("j")->first_failure->reason, "WorkerLost");
}

TEST(RestoreTest, ContradictingRecordsAreDataLoss) {
  Scene scene;
  scene.Register("a", 1);
  scene.Submit("j", 1);
  Snapshot good = *scene.store().Load();
  const auto restore = [](const Snapshot& snapshot) {
    const absl::Status status = Core::Restore(snapshot, {}, absl::UnixEpoch()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    return std::string(status.message());
  };
  Snapshot behind = good;
  behind.epoch.last = Epoch(0);
  EXPECT_EQ(restore(behind), "stored job \"j\" has epoch 1, after the newest stored epoch 0");
  Snapshot twice = good;
  twice.jobs.push_back(twice.jobs[0]);
  twice.jobs[1].id = "k";
  EXPECT_EQ(restore(twice), "stored job \"k\" (uid uid-j, number 1) repeats another stored job");
  twice.jobs[1].uid = "uid-k";
  twice.jobs[1].number = 2;
  EXPECT_EQ(restore(twice), "stored jobs \"j\" and \"k\" both hold slot 0 of worker \"a\"");
}

}  // namespace
}  // namespace stretto::coordinator::testing
