// SPDX-License-Identifier: Apache-2.0

// Jobs that wait and jobs that are over: what is stored of a queue, and how jobs are deleted.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/core/job_index.h"
#include "tests/coordinator/core/scene.h"

namespace stretto::coordinator::testing {
namespace {

using ::testing::ElementsAre;

// What the driver stored, by the kind of record.
int64_t Stored(const std::vector<std::string>& log, const std::string& what) {
  return std::count_if(log.begin(), log.end(), [&](const std::string& line) {
    return absl::StartsWith(line, "persist " + what);
  });
}

TEST(QueueTest, JobsThatWaitAreStoredOnceHoweverTheQueueMoves) {
  Scene scene;
  scene.Register("a", 1);
  for (int i = 0; i < 50; ++i) scene.Submit(absl::StrCat("j", i), 1);
  scene.TakeLog();
  scene.Prepare("j0");
  scene.Complete("j0");
  scene.Prepare("j1");
  EXPECT_EQ(Stored(scene.TakeLog(), "job"), 4);  // j0 RUNNING, j0 SUCCEEDED, j1 PREPARING, RUNNING
  scene.Submit("last", 1);
  EXPECT_EQ(Stored(scene.TakeLog(), "job"), 1);
  scene.Advance(absl::Seconds(1), {"a"});
  EXPECT_EQ(Stored(scene.TakeLog(), ""), 0);
}

TEST(QueueTest, TheLowestPriorityOfAllIsTheLastInLine) {
  const QueueKey last = {.priority = INT32_MIN, .number = INT64_MAX};
  for (const int32_t priority : {INT32_MIN, -1000, 0, 1000, INT32_MAX}) {
    EXPECT_LT((QueueKey{.priority = priority, .number = 1}), last) << priority;
  }
  EXPECT_LT((QueueKey{.priority = 1, .number = 9}), (QueueKey{.priority = 0, .number = 1}));
}

TEST(QueueTest, PlaceInTheQueueIsThatOfTheMoment) {
  Scene scene;
  scene.Register("a", 1);
  for (const char* id : {"j", "k", "l", "m"}) scene.Submit(id, 1);
  EXPECT_EQ(scene.Why("k"), "NotEnoughSlots: needs 1 slot; 0 free of 1 on 1 worker");
  EXPECT_EQ(scene.Why("m"),
            "BehindEarlierJob: waits behind job k, which needs 1 slot; 0 free of 1 on 1 worker; "
            "place 3 in the queue");
  scene.Cancel("k");
  EXPECT_EQ(scene.Why("m"),
            "BehindEarlierJob: waits behind job l, which needs 1 slot; 0 free of 1 on 1 worker; "
            "place 2 in the queue");
  EXPECT_EQ(scene.job("m").FindCondition("Scheduled")->reason, "Waiting");
}

TEST(DeleteTest, EndedJobIsGoneAndItsNameIsFree) {
  Scene scene;
  scene.Register("a", 1);
  scene.Submit("j", 1, "request");
  const Result running = scene.Delete("j");
  EXPECT_EQ(running.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(running.status.message(),
            "job \"j\" is PREPARING; only a job that has ended can be deleted: cancel it first");
  scene.Prepare("j");
  scene.Complete("j");
  scene.TakeLog();
  EXPECT_TRUE(scene.Delete("j").status.ok());
  EXPECT_THAT(scene.TakeLog(), ElementsAre("persist erase job j", "watch j deleted"));
  EXPECT_EQ(scene.core().FindJobByUid("uid-j"), nullptr);
  EXPECT_TRUE(scene.core().Jobs().empty());
  EXPECT_EQ(scene.Delete("j").status.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(scene.Submit("j", 1, "request").status.ok());  // the same request is a new one
  EXPECT_EQ(scene.job("j").state, JobState::kPreparing);
  EXPECT_GT(scene.job("j").epoch, Epoch(1));
}

TEST(DeleteTest, DeletionThatCannotBeStoredLeavesTheJob) {
  Scene scene;
  scene.Register("a", 1);
  scene.Submit("j", 1, "request");
  scene.Prepare("j");
  scene.Complete("j");
  const JobRecord before = scene.job("j");
  scene.store().FailCommit(1, FaultyStore::Fault::kResponseLost);
  EXPECT_FALSE(scene.Delete("j").status.ok());
  EXPECT_EQ(scene.job("j"), before);
  EXPECT_EQ(scene.core().FindJobByUid("uid-j")->id, "j");
  scene.Advance(absl::Seconds(1), {"a"});  // repairs the store
  ASSERT_EQ(scene.store().Load()->jobs.size(), 1u);
  EXPECT_EQ(scene.store().Load()->jobs[0], before);
}

}  // namespace
}  // namespace stretto::coordinator::testing
