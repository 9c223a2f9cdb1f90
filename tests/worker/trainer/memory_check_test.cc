// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/memory_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/units.h"
#include "worker/engine/exec/backend_cpu/cpu_backend.h"
#include "worker/engine/schedule/plan.h"

namespace stretto::trainer {
namespace {

using testing::HasSubstr;

// parameter, gradient, optimizer, input, output, activation
constexpr ArenaBytes kArenas = {2 * kGiB, 3 * kGiB, 4 * kGiB, 64, 64, 1 * kGiB - 128};

// Ranks of a node that all have these arenas.
std::vector<RankArenas> Ranks(int count, const ArenaBytes& arenas = kArenas) {
  std::vector<RankArenas> ranks;
  for (Rank rank : IdRange<Rank>(count)) ranks.push_back({rank, arenas});
  return ranks;
}

TEST(AvailableMemoryTest, IsReadFromTheKernelsTable) {
  const auto bytes = AvailableMemory(
      "MemTotal:       24736412 kB\nMemFree:         1036000 kB\nMemAvailable:   20480000 kB\n"
      "Buffers:          123456 kB\n");
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(*bytes, int64_t{20480000} * 1024);
}

TEST(AvailableMemoryTest, AnotherTableIsAnError) {
  for (const char* text : {"", "MemAvailable:\n", "MemAvailable: x kB\n", "MemFree: 12 kB\n",
                           "MemAvailable: 12 MB\n"}) {
    EXPECT_EQ(AvailableMemory(text).status().code(), absl::StatusCode::kInternal) << text;
  }
}

TEST(CheckMemoryTest, RanksThatFitExactlyPass) {
  EXPECT_EQ(CheckMemory(Ranks(1), false, 10 * kGiB), absl::OkStatus());
  EXPECT_EQ(CheckMemory(Ranks(2), false, 20 * kGiB), absl::OkStatus());
}

TEST(CheckMemoryTest, RefusalNamesEstimateAvailableAndTheLargestArenas) {
  EXPECT_EQ(CheckMemory(Ranks(2), false, 20 * kGiB - 1),
            absl::ResourceExhaustedError(
                "memory of this node: found 20.0 GiB available, expected at least 20.0 GiB for 2 "
                "ranks of the job: 10.0 GiB each (optimizer 4.0 GiB, gradient 3.0 GiB, parameter "
                "2.0 GiB)"));
  EXPECT_THAT(std::string(CheckMemory(Ranks(1), false, kGiB).message()),
              HasSubstr("expected at least 10.0 GiB for 1 rank of the job"));
}

TEST(CheckMemoryTest, RefusalOfUnlikeRanksNamesTheLargest) {
  std::vector<RankArenas> ranks = Ranks(2);
  ranks[1].arenas[ArenaClass::kOptimizer] += kGiB;
  EXPECT_EQ(CheckMemory(ranks, false, 21 * kGiB), absl::OkStatus());
  EXPECT_EQ(CheckMemory(ranks, false, 20 * kGiB),
            absl::ResourceExhaustedError(
                "memory of this node: found 20.0 GiB available, expected at least 21.0 GiB for 2 "
                "ranks of the job: rank 1 has 11.0 GiB (optimizer 5.0 GiB, gradient 3.0 GiB, "
                "parameter 2.0 GiB)"));
}

TEST(CheckMemoryTest, RanksOnGpusDoNotShare) {
  EXPECT_EQ(CheckMemory(Ranks(1), true, 10 * kGiB), absl::OkStatus());
  EXPECT_EQ(
      CheckMemory(Ranks(1), true, 9 * kGiB),
      absl::ResourceExhaustedError(
          "memory of this rank's GPU: found 9.0 GiB available, expected at least 10.0 GiB for "
          "1 rank of the job: 10.0 GiB each (optimizer 4.0 GiB, gradient 3.0 GiB, parameter "
          "2.0 GiB)"));
}

JobConfig Config(const ModelSpec& model, int tp_size) {
  JobConfig config;
  config.engine.model = model;
  config.engine.tp_size = tp_size;
  config.engine.micro_batch_size = 4;
  config.engine.schedule = {.name = "domino_row", .slices = {2, 2}};
  return config;
}

constexpr ModelSpec kTiny = {.layers = 2,
                             .hidden = 64,
                             .heads = 4,
                             .ffn_hidden = 256,
                             .sequence_length = 64,
                             .vocab_size = 257};

TEST(ArenasOfTest, AreThoseOfTheTrainingStep) {
  const JobConfig config = Config(kTiny, 2);
  const auto arenas = ArenasOf(config);
  ASSERT_TRUE(arenas.ok()) << arenas.status();
  ASSERT_EQ(arenas->size(), 1u);
  EXPECT_EQ(arenas->front().arenas, BuildPlan(config.engine, 0)->arenas);
}

TEST(ArenasOfTest, EveryStageOfTheNodeCounts) {
  JobConfig config = Config(kTiny, 2);
  config.engine.pp_size = 2;
  config.engine.micro_batches = 4;
  config.ranks_on_node = {1, 2, 3};
  const auto arenas = ArenasOf(config);
  ASSERT_TRUE(arenas.ok()) << arenas.status();
  ASSERT_EQ(arenas->size(), 3u);
  EXPECT_EQ((*arenas)[0].arenas, BuildPlan(config.engine, 0)->arenas);
  EXPECT_EQ((*arenas)[1].arenas, BuildPlan(config.engine, 2)->arenas);
  EXPECT_NE((*arenas)[0].arenas, (*arenas)[1].arenas);
}

// The first stage is refused, and learns what fewer warm-ups would do.
TEST(CheckMemoryTest, ARefusedStageLearnsWhatFewerInFlightNeed) {
  JobConfig config = Config(kTiny, 1);
  config.engine.pp_size = 2;
  config.engine.micro_batches = 8;
  config.engine.schedule.pipeline = "eager_1f1b";
  config.ranks_on_node = {0, 1};
  const auto bytes = [&](const std::string& order) {
    JobConfig other = config;
    other.engine.schedule.pipeline = order;
    int64_t total = 0;
    const auto ranks = ArenasOf(other);
    for (const RankArenas& rank : *ranks)
      total = std::accumulate(rank.arenas.begin(), rank.arenas.end(), total);
    return total;
  };
  const int64_t eager = bytes("eager_1f1b"), plain = bytes("1f1b");
  ASSERT_GT(eager, plain);
  EXPECT_EQ(CheckMemory(config, eager), absl::OkStatus());
  const std::string refusal(CheckMemory(config, eager - 1).message());
  EXPECT_THAT(refusal, HasSubstr("rank 0 of stage 0 has "));
  EXPECT_THAT(refusal, HasSubstr(absl::StrCat("; with schedule.pipeline.order 1f1b at least ",
                                              FormatBytes(plain))));
  config.engine.schedule.pipeline = "1f1b";  // there are no fewer
  EXPECT_THAT(std::string(CheckMemory(config, plain - 1).message()),
              testing::Not(HasSubstr("; with")));
}

// Only the first rank of the first stage sends.
TEST(ArenasOfTest, RanksOfAStageThatSendDifferentlyCount) {
  JobConfig config = Config(kTiny, 2);
  config.engine.pp_size = 2;
  config.engine.stages = {{.layers = 1, .tp_size = 2}, {.layers = 1, .tp_size = 1}};
  config.engine.micro_batches = 4;
  config.ranks_on_node = {0, 1, 2};
  const auto arenas = ArenasOf(config);
  ASSERT_TRUE(arenas.ok()) << arenas.status();
  for (Rank rank : config.ranks_on_node)
    EXPECT_EQ((*arenas)[rank.position()].arenas, BuildPlan(config.engine, rank)->arenas);
}

// What is recomputed in the step is kept by the unsliced program that the profile times.
TEST(ArenasOfTest, TheProfilesProgramsCount) {
  JobConfig config = Config(kTiny, 2);
  config.engine.schedule.recompute = Recompute::kFull;
  const int64_t step = ArenasOf(config)->front().arenas[ArenaClass::kActivation];
  config.profile_steps = 1;
  EXPECT_GT(ArenasOf(config)->front().arenas[ArenaClass::kActivation], step);
}

// Masters, moments and gradients in f32, and nothing is allocated to learn it.
TEST(ArenasOfTest, AHugeModelIsMeasuredWithoutMemory) {
  const JobConfig config = Config({.layers = 96,
                                   .hidden = 12288,
                                   .heads = 96,
                                   .ffn_hidden = 49152,
                                   .sequence_length = 2048,
                                   .vocab_size = 50257},
                                  8);
  const auto arenas = ArenasOf(config);
  ASSERT_TRUE(arenas.ok()) << arenas.status();
  int64_t state = 0;
  for (ArenaClass arena : {ArenaClass::kParameter, ArenaClass::kGradient, ArenaClass::kOptimizer})
    state += arenas->front().arenas[arena];
  EXPECT_NEAR(static_cast<double>(state), 174.6e9 * 16 / 8, 0.01 * 174.6e9 * 16 / 8);
  EXPECT_EQ(CheckMemory(Ranks(8, arenas->front().arenas), false, 2048 * kGiB).code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace stretto::trainer
