// SPDX-License-Identifier: Apache-2.0

// Ended jobs beyond what is kept whole: when they are retired, what is left of them, and what can
// still be done with them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/coordinator/core/scene.h"

namespace stretto::coordinator::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RetiredTest : public ::testing::Test {
 protected:
  static CoreOptions Options(int64_t jobs, int64_t retired) {
    CoreOptions options;
    options.keep_jobs = jobs;
    options.keep_retired = retired;
    return options;
  }
  static std::vector<std::string> Ids(const std::vector<const JobRecord*>& jobs) {
    std::vector<std::string> ids;
    for (const JobRecord* job : jobs) ids.push_back(job->id);
    return ids;
  }
  static std::vector<std::string> Whole(const Scene& scene) { return Ids(scene.core().Jobs()); }
  static std::vector<std::string> Retired(const Scene& scene) {
    const Core core = scene.core();
    return Ids(core.RetiredBefore(INT64_MAX, 100));
  }
  // One after the other on the one slot of worker a.
  static void Train(Scene& scene, const std::vector<std::string>& ids) {
    for (const std::string& id : ids) {
      ASSERT_TRUE(scene.Submit(id, 1, "request-of-" + id).status.ok());
      scene.Prepare(id);
      scene.Complete(id);
      scene.Advance(absl::Seconds(1), {"a"});
    }
  }
};

TEST_F(RetiredTest, OldestEndedJobsAreRetiredByNumberAndByAge) {
  CoreOptions options = Options(2, 9);
  options.keep_jobs_for = absl::Hours(1);
  Scene scene(options);
  scene.Register("a", 1);
  Train(scene, {"j", "k", "l"});
  scene.Submit("live", 1);
  EXPECT_THAT(Whole(scene), ElementsAre("k", "l", "live"));
  EXPECT_THAT(Retired(scene), ElementsAre("j"));
  scene.JumpWallClock(absl::Hours(1) - absl::Seconds(1));
  scene.Advance(absl::Seconds(0), {"a"});
  EXPECT_THAT(Whole(scene), ElementsAre("l", "live"));  // k ended an hour ago
  scene.Advance(absl::Seconds(2), {"a"});
  EXPECT_THAT(Whole(scene), ElementsAre("live"));
  scene.Advance(absl::Hours(2), {"a"});
  EXPECT_THAT(Whole(scene), ElementsAre("live"));
  EXPECT_THAT(Retired(scene), ElementsAre("l", "k", "j"));  // newest first
}

TEST_F(RetiredTest, WhatIsKeptSaysWhoHowAndWhen) {
  Scene scene(Options(0, 9));
  scene.Register("a", 1);
  scene.Submit("j", 1);
  const JobRecord before = scene.job("j");
  scene.Prepare("j");
  RankExited exit = Failed(3, "Failed");
  exit.message = std::string(1000, 'x');
  scene.Exit("j", 0, exit);
  const JobRecord ended = scene.job("j");
  scene.TakeLog();
  scene.Advance(absl::Seconds(1), {"a"});
  EXPECT_EQ(scene.TakeLog().at(0), "persist job j FAILED attempt=1 epoch=1 summary retired");
  const JobRecord kept = scene.job("j");
  EXPECT_EQ(kept.retire_time, scene.now());
  EXPECT_EQ(kept.uid, before.uid);
  EXPECT_EQ(kept.project, "default");
  EXPECT_EQ(kept.state, JobState::kFailed);
  EXPECT_EQ(kept.create_time, ended.create_time);
  EXPECT_EQ(kept.start_time, ended.start_time);
  EXPECT_EQ(kept.end_time, ended.end_time);
  ASSERT_EQ(kept.conditions.size(), 1u);
  EXPECT_EQ(kept.conditions[0].type, "Succeeded");
  EXPECT_EQ(kept.conditions[0].reason, ended.FindCondition("Succeeded")->reason);
  EXPECT_GT(ended.FindCondition("Succeeded")->message.size(), kRetiredMessageBytes);
  EXPECT_EQ(kept.conditions[0].message.size(), kRetiredMessageBytes);
  EXPECT_EQ(kept.summary.str(), "short summary of j");
  EXPECT_EQ(kept.spec, "");
  EXPECT_THAT(kept.ranks, IsEmpty());
  EXPECT_THAT(kept.attempts, IsEmpty());
  EXPECT_THAT(kept.events.events(), IsEmpty());
  // Nobody may report for it.
  EXPECT_EQ(scene.core().FindJobByUid(before.uid), nullptr);
}

TEST_F(RetiredTest, ARestartOfTheCoordinatorKeepsThem) {
  Scene scene(Options(1, 9));
  scene.Register("a", 1);
  Train(scene, {"j", "k", "l"});
  const JobRecord before = scene.job("j");
  scene.Restart();
  EXPECT_THAT(Retired(scene), ElementsAre("k", "j"));
  EXPECT_THAT(Whole(scene), ElementsAre("l"));
  EXPECT_EQ(scene.job("j"), before);
  scene.Register("a", 1);
  Train(scene, {"m"});  // has a number of its own
  EXPECT_THAT(Retired(scene), ElementsAre("l", "k", "j"));
}

TEST_F(RetiredTest, MoreThanTheirBoundAreErasedOldestFirst) {
  Scene scene(Options(1, 2));
  scene.Register("a", 1);
  Train(scene, {"j", "k", "l", "m", "n"});
  scene.Advance(absl::Seconds(1), {"a"});
  EXPECT_THAT(Whole(scene), ElementsAre("n"));
  EXPECT_THAT(Retired(scene), ElementsAre("m", "l"));
  EXPECT_EQ(scene.core().FindJob("k"), nullptr);
  EXPECT_EQ(scene.store().Load()->jobs.size(), 3u);
}

TEST_F(RetiredTest, WithoutRoomForThemEndedJobsAreErased) {
  Scene scene(Options(1, 0));
  scene.Register("a", 1);
  Train(scene, {"j", "k"});
  EXPECT_THAT(Whole(scene), ElementsAre("k"));
  EXPECT_THAT(Retired(scene), IsEmpty());
  EXPECT_EQ(scene.store().Load()->jobs.size(), 1u);
}

TEST_F(RetiredTest, ItsNameIsTakenUntilItIsDeleted) {
  Scene scene(Options(0, 9));
  scene.Register("a", 1);
  Train(scene, {"j"});
  ASSERT_THAT(Retired(scene), ElementsAre("j"));
  const absl::Status taken = scene.Submit("j", 1).status;
  EXPECT_EQ(taken.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(taken.message(),
            "job \"j\" already exists (SUCCEEDED, retired); delete it to free its name");
  scene.TakeLog();
  EXPECT_TRUE(scene.Delete("j").status.ok());
  EXPECT_THAT(scene.TakeLog(), ElementsAre("persist erase job j", "watch j deleted"));
  EXPECT_EQ(scene.Delete("j").status.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(scene.Submit("j", 1).status.ok());
  EXPECT_EQ(scene.job("j").state, JobState::kPreparing);
}

TEST_F(RetiredTest, NothingElseCanBeDoneWithIt) {
  Scene scene(Options(0, 9));
  scene.Register("a", 1);
  scene.Submit("j", 1);
  scene.Prepare("j");
  scene.Exit("j", 0, Failed(3, "broken"));
  scene.Advance(absl::Seconds(1), {"a"});
  for (const absl::Status& status : {scene.Cancel("j").status, scene.Suspend("j").status,
                                     scene.Checkpoint("j").status, scene.Resume("j").status}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  }
  EXPECT_TRUE(
      absl::StrContains(scene.Resume("j").status.message(), "job \"j\" is FAILED and was retired"));
  EXPECT_THAT(Retired(scene), ElementsAre("j"));
}

// Whether the store has it whole or retired is not known after the first commit.
TEST_F(RetiredTest, ACommitThatFailsLeavesTheJobsAsTheyWere) {
  for (const auto fault : {FaultyStore::Fault::kRefused, FaultyStore::Fault::kResponseLost}) {
    Scene scene(Options(1, 1));
    scene.Register("a", 1);
    Train(scene, {"j", "k"});  // j is retired
    scene.Submit("l", 1);
    scene.Prepare("l");
    scene.Complete("l");
    const JobRecord j = scene.job("j"), k = scene.job("k");
    scene.store().FailCommit(1, fault);
    scene.Advance(absl::Seconds(1), {"a"});  // would retire k
    EXPECT_EQ(scene.job("k"), k);
    EXPECT_EQ(scene.job("j"), j);
    EXPECT_THAT(Whole(scene), ElementsAre("k", "l"));
    for (int i = 0; i < 6; ++i) scene.Advance(absl::Seconds(1), {"a"});
    EXPECT_THAT(Whole(scene), ElementsAre("l"));
    EXPECT_THAT(Retired(scene), ElementsAre("k"));
    const Snapshot stored = *scene.store().Load();
    ASSERT_EQ(stored.jobs.size(), 2u);
    EXPECT_EQ(stored.jobs[0], scene.job("k"));
    EXPECT_EQ(stored.jobs[1], scene.job("l"));
  }
}

// The name of a retired job is deleted while it is erased by the store's fault.
TEST_F(RetiredTest, ADeletionThatCannotBeStoredLeavesIt) {
  Scene scene(Options(0, 9));
  scene.Register("a", 1);
  Train(scene, {"j"});
  const JobRecord before = scene.job("j");
  scene.store().FailCommit(1, FaultyStore::Fault::kResponseLost);
  EXPECT_FALSE(scene.Delete("j").status.ok());
  EXPECT_EQ(scene.job("j"), before);
  scene.Advance(absl::Seconds(1), {"a"});  // repairs the store
  ASSERT_EQ(scene.store().Load()->jobs.size(), 1u);
  EXPECT_EQ(scene.store().Load()->jobs[0], before);
}

TEST_F(RetiredTest, ARetiredJobThatHasNotEndedIsDataLoss) {
  Scene scene;
  scene.Register("a", 1);
  scene.Submit("j", 1);
  Snapshot snapshot = *scene.store().Load();
  snapshot.jobs[0].retire_time = absl::UnixEpoch();
  const absl::Status status = Core::Restore(snapshot, {}, absl::UnixEpoch()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status.message(),
            "stored job \"j\" is retired and PREPARING; expected one that has ended");
}

TEST_F(RetiredTest, TwoOfOneNameOrNumberAreDataLoss) {
  Scene scene(Options(0, 9));
  scene.Register("a", 1);
  Train(scene, {"j"});
  Snapshot snapshot = *scene.store().Load();
  JobRecord other = snapshot.jobs[0];
  other.uid = "another";
  other.id = "k";
  snapshot.jobs.push_back(other);
  EXPECT_TRUE(absl::IsDataLoss(Core::Restore(snapshot, {}, absl::UnixEpoch()).status()));
  snapshot.jobs[1].id = "j";
  snapshot.jobs[1].number = 99;
  EXPECT_TRUE(absl::IsDataLoss(Core::Restore(snapshot, {}, absl::UnixEpoch()).status()));
}

}  // namespace
}  // namespace stretto::coordinator::testing
