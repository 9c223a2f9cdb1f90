// SPDX-License-Identifier: Apache-2.0

// A worker has nothing to say about ranks of other nodes.

#include <gtest/gtest.h>

#include "tests/coordinator/core/scene.h"

namespace stretto::coordinator::testing {
namespace {

// Rank 0 is on a, rank 1 on b.
void Start(Scene& scene) {
  scene.Register("a", 1);
  scene.Register("b", 1);
  scene.Register("c", 1);
  scene.Submit("j", 2);
  scene.Prepare("j");
}

TEST(OtherNodesTest, RanksThatAWorkerRegistersWithAreItsOwn) {
  Scene scene;
  Start(scene);
  scene.Register("b", 1,
                 {{.job = "j", .rank = 1, .last_sequence = 1},
                  {.job = "j", .rank = 0, .last_sequence = 100},
                  {.job = "j", .rank = -1, .last_sequence = 100},
                  {.job = "j", .rank = 2, .last_sequence = 100}});
  EXPECT_EQ(scene.job("j").state, JobState::kRunning);
  scene.Advance(absl::Seconds(3), {"a", "b"});
  // Were it a repeat, it would have no time.
  scene.Report("j", 0, FirstOperationDone{scene.now() + absl::Hours(1)});
  EXPECT_EQ(scene.job("j").submit_to_first_operation, absl::Seconds(3));
}

TEST(OtherNodesTest, OnlyWorkersOfAnAttemptMeetForIt) {
  Scene scene;
  Start(scene);
  const auto check = [&](int64_t epoch, const std::string& worker) {
    return scene.core().CheckAttempt("uid-j", Epoch(epoch), worker);
  };
  for (const char* worker : {"a", "b", ""}) EXPECT_TRUE(check(1, worker).ok()) << worker;
  EXPECT_EQ(check(2, "a").code(), absl::StatusCode::kAborted);
  EXPECT_EQ(check(1, "c").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(check(1, "c").message(),
            "job \"j\": found worker \"c\", expected one that has ranks of it");
}

}  // namespace
}  // namespace stretto::coordinator::testing
