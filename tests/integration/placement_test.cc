// SPDX-License-Identifier: Apache-2.0

// Who waits, why, and who is refused.

#include <signal.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "tests/integration/cluster.h"

namespace stretto::integration {
namespace {

using ::testing::HasSubstr;

using PlacementTest = ClusterTest;

TEST_F(PlacementTest, PendingJobSaysWhyAndRunsAcrossTwoNodesWhenTheyCome) {
  StartCoordinator();
  ASSERT_EQ(
      Stretto(Submit({.name = "first", .steps = 15, .more = absl::StrCat(kSlow, kSplit)}, {})).code,
      0);
  Json scheduled = ConditionOf(Job("first"), "Scheduled");
  EXPECT_EQ(scheduled["status"], "false");
  EXPECT_EQ(scheduled["reason"], "NoWorkers");
  EXPECT_EQ(scheduled["message"], "needs 2 slots; no worker has registered");
  StartWorker("node-a", 1);
  scheduled = ConditionOf(Job("first"), "Scheduled");
  EXPECT_EQ(scheduled["reason"], "NotEnoughSlots");
  EXPECT_EQ(scheduled["message"], "needs 2 slots; 1 free of 1 on 1 worker");
  const Outcome describe = Stretto({"job", "describe", "first"});
  EXPECT_THAT(describe.out, HasSubstr("1 free of 1 on 1 worker"));

  StartWorker("node-b", 1);
  ASSERT_EQ(Stretto(Submit({.name = "second", .steps = 3, .more = kSplit}, {})).code, 0);
  scheduled = ConditionOf(Job("second"), "Scheduled");
  EXPECT_EQ(scheduled["reason"], "NotEnoughSlots");
  EXPECT_EQ(scheduled["message"], "needs 2 slots; 0 free of 2 on 2 workers");
  const Json first = AwaitState("first", "succeeded");
  std::set<std::string> nodes;
  for (const Json& rank : first["placement"]) nodes.insert(rank["worker"]);
  EXPECT_EQ(nodes, (std::set<std::string>{"workers/node-a", "workers/node-b"}));
  EXPECT_EQ(ConditionOf(first, "Scheduled")["message"],
            "2 ranks on node-a, node-b; a tensor-parallel group is on more than one worker");
  EXPECT_EQ(NumbersOf(Steps("first")), Range(1, 15));
  EXPECT_EQ(Int(first["progress"]["rank_ledgers"][1]["steps"]), 15);
  const Json second = AwaitState("second", "succeeded");
  EXPECT_LT(first["end_time"], second["start_time"]);
}

TEST_F(PlacementTest, ABlockWaitsForANodeThatHasRoomForAllOfIt) {
  StartCoordinator();
  StartWorker("node-a", 1);
  StartWorker("node-b", 1);
  const char* why =
      "needs 2 slots; 2 free of 2 on 2 workers, but no worker has room for a block of 2 (set "
      "placement.split_blocks to let one span workers)";
  const Outcome tried = Stretto(Submit({.name = "whole", .steps = 2}, {"--dry-run"}));
  EXPECT_THAT(tried.out, HasSubstr(absl::StrCat("It would wait: NotEnoughSlots: ", why)));
  ASSERT_EQ(Stretto(Submit({.name = "whole", .steps = 2}, {})).code, 0);
  const Json scheduled = ConditionOf(Job("whole"), "Scheduled");
  EXPECT_EQ(scheduled["reason"], "NotEnoughSlots");
  EXPECT_EQ(scheduled["message"], why);
  StartWorker("node-c", 2);
  const Json job = AwaitState("whole", "succeeded");
  EXPECT_EQ(ConditionOf(job, "Scheduled")["message"], "2 ranks on node-c");
}

TEST_F(PlacementTest, GangLargerThanTheClusterIsRefused) {
  StartCluster();
  const Outcome outcome = Stretto(Submit({.name = "large", .tp_size = 4}, {}));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err,
              HasSubstr("job \"large\" needs 4 slots; this cluster has 2 on 1 worker"));
  EXPECT_EQ(Stretto({"job", "get", "large"}).code, 1);
}

TEST_F(PlacementTest, KilledTrainerOnOneNodeEndsTheOtherNodesToo) {
  StartCoordinator();
  StartWorker("node-a", 1);
  StartWorker("node-b", 1);
  const auto waiting = StartStretto(
      Submit({.name = "gang", .steps = 100000, .more = absl::StrCat(kSlow, kSplit)}, {"--wait"}));
  ASSERT_TRUE(Eventually([&] { return Stretto({"job", "get", "gang"}).code == 0; }));
  AwaitStep("gang", 2);
  const pid_t other = TrainerPid("gang", 1);
  ASSERT_EQ(kill(TrainerPid("gang", 0), SIGKILL), 0);
  EXPECT_EQ(waiting->Wait(), 3);
  EXPECT_FALSE(IsRunning(other));
  const Json failure = Job("gang")["first_failure"];
  EXPECT_EQ(failure["rank"], 0) << failure;
  EXPECT_EQ(failure["signal"], SIGKILL);
}

}  // namespace
}  // namespace stretto::integration
