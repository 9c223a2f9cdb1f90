// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/memory_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/units.h"
#include "worker/engine/model/parameters.h"
#include "worker/engine/schedule/plan.h"
#include "worker/trainer/plan/writers.h"

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
              testing::Not(HasSubstr("; with schedule.pipeline")));
}

int64_t ArenasOfNode(const JobConfig& config) {
  int64_t bytes = 0;
  const auto ranks = ArenasOf(config);
  for (const RankArenas& rank : *ranks)
    bytes = std::accumulate(rank.arenas.begin(), rank.arenas.end(), bytes);
  return bytes;
}

TEST(CheckMemoryTest, ARefusalSaysWhatRecomputationWouldNeed) {
  JobConfig config = Config(kTiny, 2);
  const auto bytes = [&](Recompute recompute) {
    config.engine.schedule.recompute = recompute;
    return ArenasOfNode(config);
  };
  const int64_t full = bytes(Recompute::kFull), selective = bytes(Recompute::kSelective);
  const int64_t none = bytes(Recompute::kNone);
  ASSERT_LT(full, selective);
  ASSERT_LT(selective, none);
  const auto refusal = [&](Recompute recompute, int64_t available) {
    config.engine.schedule.recompute = recompute;
    return std::string(CheckMemory(config, available).message());
  };
  const std::string with = "; with schedule.parameters.recompute ";
  const std::string for_selective =
      absl::StrCat(with, "selective at least ", FormatBytes(selective));
  const std::string for_full = absl::StrCat(with, "full at least ", FormatBytes(full));
  EXPECT_THAT(refusal(Recompute::kNone, none - 1), testing::EndsWith(for_selective));
  EXPECT_THAT(refusal(Recompute::kNone, selective - 1), testing::EndsWith(for_full));
  EXPECT_THAT(refusal(Recompute::kNone, full - 1), testing::EndsWith(for_full));
  EXPECT_THAT(refusal(Recompute::kSelective, full), testing::EndsWith(for_full));
  EXPECT_THAT(refusal(Recompute::kFull, full - 1), testing::Not(HasSubstr(with)));
}

// ---- copies for asynchronous checkpoints

// Saves between its steps; two ranks share the node.
JobConfig Saving(std::optional<bool> asynchronous) {
  JobConfig config = Config(kTiny, 2);
  config.steps = 10;
  config.checkpoint_interval = 5;
  config.checkpoint_asynchronous = asynchronous;
  config.ranks_on_node = {0, 1};
  return config;
}

// A master and two moments in f32 of what each of the two ranks writes.
int64_t CopiesOf(const JobConfig& config) {
  const Writers writers(config.engine);
  return writers.BytesOf(0) + writers.BytesOf(1);
}

TEST(CopiesTest, OnesThatAreAskedForCountAndTheRefusalNamesTheField) {
  const JobConfig config = Saving(true);
  const int64_t copies = CopiesOf(config), arenas = ArenasOfNode(config);
  int64_t elements = 0;
  for (const Parameter& parameter : ParametersOf(config.engine.model, 1, 0))
    elements += parameter.count();
  EXPECT_EQ(copies, 12 * elements);
  EXPECT_EQ(CopyBytes(config), Writers(config.engine).BytesOf(0));
  EXPECT_EQ(CheckMemory(config, arenas + copies), absl::OkStatus());
  const absl::Status refused = CheckMemory(config, arenas + copies - 1);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      std::string(refused.message()),
      testing::AllOf(HasSubstr(absl::StrCat("found ", FormatBytes(arenas + copies - 1),
                                            " available, expected at least ",
                                            FormatBytes(arenas + copies), " for 2 ranks")),
                     HasSubstr(absl::StrCat(") and ", FormatBytes(copies),
                                            " for copies (checkpoint.asynchronous: true); with "
                                            "checkpoint.asynchronous: false at least ",
                                            FormatBytes(arenas)))));
}

TEST(CopiesTest, OnesThatAreNotAskedForRefuseNothing) {
  for (std::optional<bool> asynchronous : {std::optional<bool>(), std::optional<bool>(false)}) {
    const JobConfig config = Saving(asynchronous);
    EXPECT_EQ(CheckMemory(config, ArenasOfNode(config)), absl::OkStatus());
  }
}

TEST(CopiesTest, ByDefaultTheyTakeAtMostHalfOfWhatIsLeft) {
  const JobConfig config = Saving(std::nullopt);
  const int64_t fits = ArenasOfNode(config) + 2 * CopiesOf(config);
  EXPECT_EQ(MakesCopies(config, fits).value(), true);
  EXPECT_EQ(MakesCopies(config, fits - 1).value(), false);
  EXPECT_EQ(MakesCopies(Saving(true), 0).value(), true);  // checked before
  EXPECT_EQ(MakesCopies(Saving(false), fits).value(), false);
}

TEST(CopiesTest, AJobThatOnlySavesAtItsEndMakesNone) {
  JobConfig config = Saving(true);
  config.checkpoint_interval = config.steps;
  EXPECT_EQ(MakesCopies(config, kGiB).value(), false);
  EXPECT_EQ(CheckMemory(config, ArenasOfNode(config)), absl::OkStatus());
  config.checkpoint_interval = 0;
  EXPECT_EQ(MakesCopies(config, kGiB).value(), false);
  config.checkpoint_interval = 1;
  config.checkpoint_disabled = true;
  EXPECT_EQ(MakesCopies(config, kGiB).value(), false);
}

// Arenas are on the GPUs, copies in the memory of their node.
TEST(CopiesTest, OfRanksOnGpusAreCheckedAgainstTheNode) {
  JobConfig config = Saving(true);
  config.on_gpu = true;
  const int64_t copies = CopiesOf(config);
  EXPECT_EQ(CheckMemory(config, ArenasOfNode(config)), absl::OkStatus());
  EXPECT_EQ(CheckCopies(config, copies), absl::OkStatus());
  EXPECT_EQ(CheckCopies(config, copies - 1),
            absl::ResourceExhaustedError(absl::StrCat(
                "memory of this node: found ", FormatBytes(copies - 1),
                " available, expected at least ", FormatBytes(copies),
                " for the copies of 2 ranks of the job (checkpoint.asynchronous: true)")));
  config.checkpoint_asynchronous = std::nullopt;
  EXPECT_EQ(CheckCopies(config, 0), absl::OkStatus());
  EXPECT_EQ(MakesCopies(config, 2 * copies).value(), true);
  EXPECT_EQ(MakesCopies(config, 2 * copies - 1).value(), false);
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
