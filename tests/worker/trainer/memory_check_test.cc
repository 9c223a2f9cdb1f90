// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/memory_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "proto/base/units.h"
#include "worker/engine/exec/backend_cpu/cpu_backend.h"
#include "worker/engine/schedule/plan.h"

namespace stretto::trainer {
namespace {

using testing::HasSubstr;

// parameter, gradient, optimizer, input, output, activation
constexpr ArenaBytes kArenas = {2 * kGiB, 3 * kGiB, 4 * kGiB, 64, 64, 1 * kGiB - 128};

JobConfig Ranks(int on_node) {
  JobConfig config;
  config.ranks_on_node = on_node;
  return config;
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
  EXPECT_EQ(CheckMemory(kArenas, Ranks(1), 10 * kGiB), absl::OkStatus());
  EXPECT_EQ(CheckMemory(kArenas, Ranks(2), 20 * kGiB), absl::OkStatus());
}

TEST(CheckMemoryTest, RefusalNamesEstimateAvailableAndTheLargestArenas) {
  EXPECT_EQ(CheckMemory(kArenas, Ranks(2), 20 * kGiB - 1),
            absl::ResourceExhaustedError(
                "memory of this node: found 20.0 GiB available, expected at least 20.0 GiB for 2 "
                "ranks of the job: 10.0 GiB each (optimizer 4.0 GiB, gradient 3.0 GiB, parameter "
                "2.0 GiB)"));
  EXPECT_THAT(std::string(CheckMemory(kArenas, Ranks(1), kGiB).message()),
              HasSubstr("expected at least 10.0 GiB for 1 rank of the job"));
}

TEST(CheckMemoryTest, RanksOnGpusDoNotShare) {
  JobConfig config = Ranks(2);
  config.on_gpu = true;
  EXPECT_EQ(CheckMemory(kArenas, config, 10 * kGiB), absl::OkStatus());
  EXPECT_EQ(
      CheckMemory(kArenas, config, 9 * kGiB),
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
  EXPECT_EQ(*arenas, BuildPlan(config.engine, 0)->arenas);
}

// What is recomputed in the step is kept by the unsliced program that the profile times.
TEST(ArenasOfTest, TheProfilesProgramsCount) {
  JobConfig config = Config(kTiny, 2);
  config.engine.schedule.recompute = Recompute::kFull;
  const int64_t step = (*ArenasOf(config))[static_cast<size_t>(ArenaClass::kActivation)];
  config.profile_steps = 1;
  EXPECT_GT((*ArenasOf(config))[static_cast<size_t>(ArenaClass::kActivation)], step);
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
    state += (*arenas)[static_cast<size_t>(arena)];
  EXPECT_NEAR(static_cast<double>(state), 174.6e9 * 16 / 8, 0.01 * 174.6e9 * 16 / 8);
  EXPECT_EQ(CheckMemory(*arenas, Ranks(8), 2048 * kGiB).code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace stretto::trainer
