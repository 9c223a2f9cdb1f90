// SPDX-License-Identifier: Apache-2.0
#include "worker/checkpoint/best.h"

#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/checkpoint/two_ranks.h"

namespace stretto {
namespace {

using testing::UnorderedElementsAre;

class BestTest : public CheckpointTest {
 protected:
  // Keeps the newest and the best.
  std::string Save(int64_t step, int64_t epoch, std::optional<double> loss, int newest = 1) {
    TrainingState state = State(step, epoch);
    state.held_out = {.of = "text", .loss = loss};
    const auto folder = Commit(job_, state, WriteBoth(step, epoch), {newest, /*best=*/true});
    EXPECT_TRUE(folder.ok()) << folder.status();
    return folder.ok() ? *folder : "";
  }
  std::string Best(int64_t epoch = 9) { return NameOfOwnBest(job_, {Epoch(epoch), kRun}).value(); }
};

TEST_F(BestTest, IsKeptBesideTheNewest) {
  Save(10, 1, 3.0);
  Save(20, 1, 2.0);
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000020"));
  Save(30, 1, 2.5);
  Save(40, 1, 2.5);
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000020", "step-00000040"));
  EXPECT_EQ(Best(), "step-00000020");
  Save(50, 1, 1.0);  // the newest is the best
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000050"));
  EXPECT_EQ(Best(), "step-00000050");
}

TEST_F(BestTest, IsOneOfTheNewestOrOneMore) {
  Save(10, 1, 1.0, 2);
  Save(20, 1, 2.0, 2);
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000010", "step-00000020"));
  Save(30, 1, 3.0, 2);
  Save(40, 1, 4.0, 2);
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000010", "step-00000030", "step-00000040"));
}

TEST_F(BestTest, OfEqualOnesTheEarlierIsKept) {
  Save(10, 1, 2.0);
  Save(20, 1, 2.0);
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000010", "step-00000020"));
  // A later attempt that went back.
  Save(5, 2, 2.0);
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000010", "step-00000005"));
  EXPECT_EQ(Best(), "step-00000010");
}

TEST_F(BestTest, HasALoss) {
  Save(10, 1, std::nullopt);
  EXPECT_EQ(Best(), "");
  Save(20, 1, 2.0);
  Save(30, 1, std::nullopt);  // of a stop between evaluations
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000020", "step-00000030"));
  EXPECT_EQ(Best(), "step-00000020");
}

TEST_F(BestTest, IsWhole) {
  fs::remove(Save(10, 1, 1.0) + "/rank-00001.safetensors");
  Save(20, 1, 2.0);
  Save(30, 1, 3.0);
  // What is damaged is neither kept nor removed.
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000010", "step-00000020", "step-00000030"));
  EXPECT_EQ(Best(), "step-00000020");
}

TEST_F(BestTest, IsOfTheRunItself) {
  Save(10, 1, 1.0);
  TrainingState other = State(20, 2);
  other.job_uid = "89abcdef";
  other.held_out = {.of = "text", .loss = 5.0};
  std::vector<ShardInfo> shards;
  const float value = 0;
  shards.push_back(*WriteShard(job_, 20, {Epoch(2), other.job_uid}, Rank::Of(0),
                               {{"w", "F32", {1}, {0}, {1}, &value}}));
  ASSERT_TRUE(Commit(job_, other, shards, {1, true}).ok());
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000010", "step-00000020"));
  EXPECT_EQ(NameOfOwnBest(job_, {Epoch(2), other.job_uid}).value(), "step-00000020");
  EXPECT_EQ(Best(), "step-00000010");
}

TEST_F(BestTest, WithoutBeingAskedForItGoes) {
  Save(10, 1, 1.0);
  TrainingState state = State(20, 1);
  ASSERT_TRUE(Commit(job_, state, WriteBoth(20, 1), 1).ok());
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000020"));
}

TEST(JobOfBestTest, IsWhatComesBeforeIt) {
  EXPECT_EQ(JobOfBest("/checkpoints/gpt/best"), "/checkpoints/gpt");
  EXPECT_EQ(JobOfBest("gpt/best"), "gpt");
  for (const char* other : {"best", "/best", "gpt", "gpt/step-00000010", "gpt/thebest", ""})
    EXPECT_EQ(JobOfBest(other), std::nullopt) << other;
}

}  // namespace
}  // namespace stretto
