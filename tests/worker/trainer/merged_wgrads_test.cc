// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/merged_wgrads.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/comm/local/local.h"
#include "worker/trainer/agreement/control.h"
#include "worker/trainer/memory_check.h"
#include "worker/trainer/plan/arenas.h"

namespace stretto::trainer {
namespace {

// Six micro-batches of two ranks on one node.
JobConfig MergedConfig() {
  v1alpha1::AttachResponse task;
  task.set_data_root(testing::TempDir());
  task.set_checkpoint_root(testing::TempDir());
  v1alpha1::JobSpec& spec = *task.mutable_assign()->mutable_spec();
  task.mutable_assign()->set_job_id("job");
  task.mutable_assign()->add_ranks()->set_rank(0);
  task.mutable_assign()->add_ranks()->set_rank(1);
  spec.mutable_model()->set_preset("gpt-tiny");
  spec.mutable_data()->set_prefix("text");
  spec.mutable_parallelism()->set_tp_size(2);
  spec.mutable_schedule()->set_name("domino_row");
  spec.mutable_schedule()->mutable_parameters()->set_slices(2);
  spec.mutable_schedule()->mutable_parameters()->set_auto_merge_wgrads(true);
  spec.set_steps(1);
  spec.set_micro_batch_size(2);
  spec.set_global_batch_size(12);
  const auto config = ConfigFrom(task, 0);
  EXPECT_TRUE(config.ok()) << config.status();
  return *config;
}

JobConfig With(int merged) {
  JobConfig config = MergedConfig();
  SetMergedWgrads(merged, &config);
  return config;
}

// Of the ranks of the node.
int64_t BytesOf(const JobConfig& config) {
  int64_t bytes = 0;
  const std::vector<RankArenas> ranks = *ArenasOf(config);
  for (const RankArenas& rank : ranks) bytes += TotalBytes(rank.arenas);
  return bytes;
}

TEST(MostMergedWgradsTest, IsTheGreatestDivisorThatFitsTheNode) {
  for (const auto& [merged, fewer] : {std::pair{2, 1}, {3, 2}, {6, 3}}) {
    const int64_t bytes = BytesOf(With(merged));
    EXPECT_EQ(*MostMergedWgrads(MergedConfig(), bytes), merged);
    EXPECT_EQ(*MostMergedWgrads(MergedConfig(), bytes - 1), fewer);
  }
  EXPECT_EQ(*MostMergedWgrads(MergedConfig(), int64_t{1} << 40), 6);
}

TEST(MostMergedWgradsTest, WhatDoesNotFitAtAllIsRefusedAsEverywhere) {
  const int64_t available = BytesOf(With(1)) - 1;
  EXPECT_EQ(*MostMergedWgrads(MergedConfig(), available + 1), 1);
  EXPECT_EQ(MostMergedWgrads(MergedConfig(), available).status(), CheckMemory(With(1), available));
}

// What ranks with room for so much settle on.
std::vector<absl::StatusOr<int>> MergedAgreed(std::vector<int> most,
                                              const std::string& saved_hash) {
  std::vector<absl::StatusOr<int>> agreed(most.size(), 0);
  std::vector<std::unique_ptr<Communicator>> group =
      LocalGroup::Create(static_cast<int>(most.size()));
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < most.size(); ++rank) {
    threads.emplace_back([&, rank] {
      JobConfig config = MergedConfig();
      const absl::Status status =
          AgreeOnMergedWgrads(most[rank], saved_hash, *group[rank], &config);
      agreed[rank] = config.engine.schedule.merge_wgrads;
      EXPECT_TRUE(!status.ok() || config.spec_hash == With(*agreed[rank]).spec_hash);
      if (!status.ok()) agreed[rank] = status;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return agreed;
}

TEST(AgreeOnMergedWgradsTest, TheRankWithTheLeastMemoryDecides) {
  for (const auto& merged : MergedAgreed({6, 2, 3}, "")) EXPECT_EQ(*merged, 2);
}

TEST(AgreeOnMergedWgradsTest, ACheckpointsNumberHolds) {
  for (const auto& merged : MergedAgreed({6, 6}, With(2).spec_hash)) EXPECT_EQ(*merged, 2);
  for (const auto& merged : MergedAgreed({2, 6}, With(2).spec_hash)) EXPECT_EQ(*merged, 2);
  // It no longer fits: the run continues under another layout.
  for (const auto& merged : MergedAgreed({2, 6}, With(3).spec_hash)) EXPECT_EQ(*merged, 2);
}

// Resume refuses it later, for what differs.
TEST(AgreeOnMergedWgradsTest, ACheckpointOfAnotherSpecDecidesNothing) {
  for (const auto& merged : MergedAgreed({6, 3}, "0123456789abcdef")) EXPECT_EQ(*merged, 3);
}

// A peer of another build, say.
TEST(AgreeOnMergedWgradsTest, WhatIsNoDivisorIsAnErrorThatNamesTheRank) {
  for (const char* sent : {"4", "0", "-1", "six", "", "99999999999999999999"}) {
    std::vector<std::unique_ptr<Communicator>> group = LocalGroup::Create(2);
    std::thread peer([&] { EXPECT_TRUE(ExchangeText(*group[1], sent).ok()); });
    JobConfig config = MergedConfig();
    EXPECT_EQ(AgreeOnMergedWgrads(6, "", *group[0], &config),
              absl::InternalError(absl::StrCat("rank 1: found weight gradients merged over '", sent,
                                               "' micro-batches, expected a divisor of 6")));
    peer.join();
  }
}

TEST(AgreeOnMergedWgradsTest, ABrokenGroupIsAnError) {
  std::vector<std::unique_ptr<Communicator>> group = LocalGroup::Create(2);
  group[1].reset();
  JobConfig config = MergedConfig();
  EXPECT_FALSE(AgreeOnMergedWgrads(1, "", *group[0], &config).ok());
}

}  // namespace
}  // namespace stretto::trainer
