// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/warm_ups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/worker/trainer/local_job.h"
#include "tests/worker/trainer/tiny_job.h"
#include "worker/comm/local/local.h"
#include "worker/comm/paced.h"
#include "worker/trainer/agreement/control.h"
#include "worker/trainer/memory_check.h"
#include "worker/trainer/plan/arenas.h"

namespace stretto::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

EngineSpec Stages(int pp_size, int tp_size, int micro_batches) {
  EngineSpec spec;
  spec.pp_size = pp_size;
  spec.tp_size = tp_size;
  spec.micro_batches = micro_batches;
  return spec;
}

// Three stages of two ranks, with passes of 1 s and 2 s, and transfers of 0.1 s.
std::vector<PassTimes> SixRanks() {
  PassTimes times = {.stage = {.forward = 1, .backward = 2, .delayed = 0},
                     .received = {.forward = 0.1, .backward = 0.1}};
  std::vector<PassTimes> ranks(6, times);
  ranks[0].received.forward = ranks[1].received.forward = 0;
  ranks[4].received.backward = ranks[5].received.backward = 0;
  return ranks;
}

TEST(WarmUpsByTest, EachBoundaryHasWhatItsWayThereAndBackTakes) {
  const EngineSpec spec = Stages(3, 2, 16);
  EXPECT_THAT(WarmUpsBy(spec, SixRanks()), ElementsAre(5, 3, 1));
  std::vector<PassTimes> ranks = SixRanks();
  for (PassTimes& times : ranks) times.received = {};
  EXPECT_THAT(WarmUpsBy(spec, ranks), ElementsAre(3, 2, 1));
  // Rank 3 alone, of the second stage, waits for the last one: 3 s of periods of 3 s.
  ranks[3].received.backward = 3;
  EXPECT_THAT(WarmUpsBy(spec, ranks), ElementsAre(4, 3, 1));
  ranks[3].received.backward = 3.1;
  EXPECT_THAT(WarmUpsBy(spec, ranks), ElementsAre(4, 3, 1)) << "the link is then the period";
  ranks[3].received.forward = 0.5;
  EXPECT_THAT(WarmUpsBy(spec, ranks), ElementsAre(5, 3, 1));
  EXPECT_THAT(WarmUpsBy(Stages(3, 2, 2), SixRanks()), ElementsAre(2, 2, 1));
}

TEST(WarmUpsByTest, AStageIsAsSlowAsItsSlowestRank) {
  std::vector<PassTimes> ranks = SixRanks();
  ranks[2].received.forward = ranks[1].received.backward = 2;  // 4 s at the first boundary
  EXPECT_THAT(WarmUpsBy(Stages(3, 2, 16), ranks), ElementsAre(6, 3, 1));
  ranks[5].stage.backward = 3;  // a period of 4 s
  EXPECT_THAT(WarmUpsBy(Stages(3, 2, 16), ranks), ElementsAre(5, 3, 1));
}

TEST(WarmUpsByTest, WhatTheNextStageDelaysGivesTheWayBackTime) {
  std::vector<PassTimes> ranks = SixRanks();
  ranks[4].stage.delayed = ranks[5].stage.delayed = 0.2;
  EXPECT_THAT(WarmUpsBy(Stages(3, 2, 16), ranks), ElementsAre(4, 2, 1));
}

// Eight micro-batches in two stages of one rank, both on one node.
JobConfig Config() {
  v1alpha1::AttachResponse task;
  task.set_data_root(testing::TempDir());
  task.set_checkpoint_root(testing::TempDir());
  v1alpha1::JobSpec& spec = *task.mutable_assign()->mutable_spec();
  task.mutable_assign()->set_job_id("job");
  for (int rank : {0, 1}) task.mutable_assign()->add_ranks()->set_rank(rank);
  spec.mutable_model()->set_preset("gpt-tiny");
  spec.mutable_data()->set_prefix("text");
  spec.mutable_parallelism()->set_pp_size(2);
  spec.mutable_schedule()->mutable_pipeline()->set_order("eager_1f1b");
  spec.mutable_schedule()->mutable_pipeline()->set_auto_warm_up(true);
  spec.set_steps(1);
  spec.set_micro_batch_size(2);
  spec.set_global_batch_size(16);
  const auto config = ConfigFrom(task, 0);
  EXPECT_TRUE(config.ok()) << config.status();
  return *config;
}

int64_t BytesOf(JobConfig config, std::vector<int> warm_ups) {
  config.engine.schedule.warm_up = std::move(warm_ups);
  int64_t bytes = 0;
  const std::vector<RankArenas> ranks = *ArenasOf(config);
  for (const RankArenas& rank : ranks) bytes += TotalBytes(rank.arenas);
  return bytes;
}

TEST(AutoWarmUpTest, UntilTheRanksHaveChosenTheyAreTheFewest) {
  EXPECT_TRUE(Config().auto_warm_up);
  EXPECT_EQ(BytesOf(Config(), {}), BytesOf(Config(), {2, 1}));
}

TEST(MostExtraWarmUpsTest, IsAsManyAsFitTheNode) {
  for (int extra : {1, 2, 5}) {
    const int64_t bytes = BytesOf(Config(), {2 + extra, 1});
    EXPECT_EQ(*MostExtraWarmUps({7, 1}, bytes, Config()), extra);
    EXPECT_EQ(*MostExtraWarmUps({7, 1}, bytes - 1, Config()), extra - 1);
  }
  EXPECT_EQ(*MostExtraWarmUps({7, 1}, int64_t{1} << 40, Config()), 5);
  EXPECT_EQ(*MostExtraWarmUps({2, 1}, 0, Config()), 0);
}

// With fewer micro-batches than stages the first stage may keep fewer than in 1f1b.
TEST(MostExtraWarmUpsTest, AnyStageMayHaveTheMostBeyondThoseOf1f1b) {
  JobConfig config = Config();
  config.engine.model.layers = config.engine.pp_size = 4;
  config.engine.micro_batches = 3;
  EXPECT_EQ(*MostExtraWarmUps({3, 3, 3, 1}, int64_t{1} << 40, config), 1);
}

// Two ranks with these times and memory. The result of each.
std::vector<std::vector<int>> Agreed(const std::vector<PassTimes>& times,
                                     const std::vector<int64_t>& available) {
  std::vector<std::vector<int>> agreed(times.size());
  const auto group = LocalGroup::Create(static_cast<int>(times.size()));
  std::vector<std::jthread> ranks;
  for (size_t rank = 0; rank < times.size(); ++rank) {
    ranks.emplace_back([&, rank] {
      JobConfig config = Config();
      const std::string hash = config.spec_hash;
      const absl::Status status =
          AgreeOnWarmUps(times[rank], available[rank], *group[rank], &config);
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(config.spec_hash, hash);
      agreed[rank] = config.engine.schedule.warm_up;
    });
  }
  ranks.clear();
  return agreed;
}

TEST(AgreeOnWarmUpsTest, AllRanksKnowAllTimesAndTheOneWithTheLeastMemoryDecides) {
  const StageSeconds stage = {.forward = 1, .backward = 1, .delayed = 0};
  const std::vector<PassTimes> times = {{.stage = stage, .received = {.backward = 2}},
                                        {.stage = stage, .received = {.forward = 2}}};
  constexpr int64_t kPlenty = int64_t{1} << 40;
  const std::vector<int> free = {4, 1}, less = {3, 1};
  EXPECT_THAT(Agreed(times, {kPlenty, kPlenty}), ElementsAre(free, free));
  EXPECT_THAT(Agreed(times, {kPlenty, BytesOf(Config(), less)}), ElementsAre(less, less));
}

TEST(AgreeOnWarmUpsTest, WhatIsNoTimeIsAnErrorThatNamesTheRank) {
  for (double sent : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    const auto group = LocalGroup::Create(2);
    std::jthread peer([&] {
      EXPECT_TRUE(ExchangeNumbers(*group[1], {1.0, 1.0, sent, 0.0, 0.0}).ok());
    });
    JobConfig config = Config();
    const absl::Status status = AgreeOnWarmUps({}, 0, *group[0], &config);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("as seconds of a micro-batch, expected 0 or more"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1: found "));
  }
}

TEST(AgreeOnWarmUpsTest, ABrokenGroupIsAnError) {
  auto group = LocalGroup::Create(2);
  group[1].reset();
  JobConfig config = Config();
  EXPECT_FALSE(AgreeOnWarmUps({}, 0, *group[0], &config).ok());
}

// Real passes, and transfers on links whose time is known.
using MeasurePassesTest = TinyJobTest;

TEST_F(MeasurePassesTest, SeesItsOwnPassesAndWhatItsNeighboursSend) {
  config_.engine.model.layers = 3;
  config_.engine.pp_size = 3;
  config_.engine.tp_size = 2;
  config_.engine.schedule = {.name = "domino_row", .slices = {1, 1}};
  config_.engine.schedule.wgrad_delay = WgradDelay::kSend;
  const absl::Duration latency = absl::Milliseconds(20);
  std::vector<PassTimes> times(6);
  OnLocalRanks(config_, [&](LocalRank& rank) {
    const IdVector<GroupId, Group> groups = GroupsOf(config_.engine, rank.config.rank);
    for (GroupId id : groups.ids()) {
      if (groups[id].name != TransferGroupName(0, 1)) continue;
      auto& link = rank.groups[id.position()];
      link = std::make_unique<PacedCommunicator>(
          std::move(link), Link{.bytes_per_second = 1e12, .latency = latency});
    }
    const auto ops = MakeCpuOps();
    const auto backend = MakeCpuBackend(*ops);
    const auto measured =
        MeasurePasses(rank.config, *sampler_, rank.links(), *rank.control, *backend);
    ASSERT_TRUE(measured.ok()) << measured.status();
    times[rank.config.rank.position()] = *measured;
  });
  for (Rank rank : IdRange<Rank>(6)) {
    const PassTimes& of = times[rank.position()];
    const int stage = PlaceOf(config_.engine, rank).stage;
    EXPECT_GT(of.stage.forward, 0) << rank.value();
    EXPECT_GT(of.stage.backward, 0) << rank.value();
    if (stage > 0) {
      EXPECT_GT(of.stage.delayed, 0) << rank.value();
      EXPECT_LT(of.stage.delayed, of.stage.backward) << rank.value();
    }
    EXPECT_EQ(of.received.forward > 0, stage > 0) << rank.value();
    EXPECT_EQ(of.received.backward > 0, stage < 2) << rank.value();
    // Two slices, one after the other.
    if (stage == 1) {
      EXPECT_GE(of.received.forward, 2 * absl::ToDoubleSeconds(latency));
    }
  }
}

}  // namespace
}  // namespace stretto::trainer
