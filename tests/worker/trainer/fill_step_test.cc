// SPDX-License-Identifier: Apache-2.0

// What the host writes before a step.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/worker/trainer/local_job.h"
#include "tests/worker/trainer/tiny_job.h"
#include "worker/data/batch.h"
#include "worker/data/training_data.h"
#include "worker/trainer/plan/arenas.h"
#include "worker/trainer/profile.h"

namespace stretto::trainer {
namespace {

using testing::ElementsAre;

class FillStepTest : public TinyJobTest {
 protected:
  FillStepTest() {
    config_.engine.model.dropout = 0.5;
    config_.seed = (uint64_t{5} << 32) | 0xfffffff7;
    engine_ = MakeEngine();
  }
  std::vector<int32_t> Keys(int mb) { return {engine_->keys(mb), engine_->keys(mb) + kKeyCount}; }

  std::unique_ptr<RankEngine> engine_;
};

TEST_F(FillStepTest, KeysAreSeedStepAndFirstTokenOfEachMicroBatch) {
  ASSERT_TRUE(FillStep(config_, *sampler_, 6, 41, 40, *engine_).ok());
  EXPECT_THAT(Keys(0), ElementsAre(-9, 5, 41, 0));
  EXPECT_THAT(Keys(1), ElementsAre(-9, 5, 41, 16));
  EXPECT_THAT(Keys(2), ElementsAre(-9, 5, 41, 32));
}

TEST_F(FillStepTest, MicroBatchesContinueWhatWasConsumed) {
  ASSERT_TRUE(FillStep(config_, *sampler_, 6, 2, 1, *engine_).ok());
  std::vector<int32_t> tokens(6 * 8), targets(6 * 8);
  ASSERT_TRUE(sampler_->ReadBatch(6, 6, tokens.data(), targets.data()).ok());
  for (int mb = 0; mb < 3; ++mb) {
    EXPECT_TRUE(
        std::equal(tokens.begin() + mb * 16, tokens.begin() + (mb + 1) * 16, engine_->tokens(mb)));
    EXPECT_TRUE(std::equal(targets.begin() + mb * 16, targets.begin() + (mb + 1) * 16,
                           engine_->targets(mb)));
  }
}

// Three micro-batches of two sequences for each of two replicas.
TEST_F(FillStepTest, ReplicasTakeMicroBatchesInTurn) {
  config_.engine.dp_size = 2;
  std::vector<int32_t> tokens(12 * 8), targets(12 * 8);
  ASSERT_TRUE(sampler_->ReadBatch(6, 12, tokens.data(), targets.data()).ok());
  OnLocalEngines(config_, [&](LocalRank& rank, RankEngine& engine) {
    ASSERT_TRUE(FillStep(rank.config, *sampler_, 6, 2, 1, engine).ok());
    for (int mb = 0; mb < 3; ++mb) {
      const int first = (mb * 2 + rank.config.rank.value()) * 16;
      EXPECT_EQ(engine.keys(mb)[kFirstToken], first);
      EXPECT_TRUE(
          std::equal(tokens.begin() + first, tokens.begin() + first + 16, engine.tokens(mb)));
      EXPECT_TRUE(
          std::equal(targets.begin() + first, targets.begin() + first + 16, engine.targets(mb)));
    }
    EXPECT_FLOAT_EQ(engine.scalars()[kLossWeight], 1.0f / 96);
  });
}

// The only replica of the second stage has the sequences of both replicas of the first.
TEST_F(FillStepTest, AStageWithFewerReplicasTakesLargerMicroBatches) {
  config_.engine.dp_size = config_.engine.pp_size = 2;
  config_.engine.model.layers = 2;
  config_.engine.stages = {{.layers = 1}, {.layers = 1, .dp_size = 1}};
  std::vector<int32_t> tokens(12 * 8), targets(12 * 8);
  ASSERT_TRUE(sampler_->ReadBatch(6, 12, tokens.data(), targets.data()).ok());
  OnLocalEngines(config_, [&](LocalRank& rank, RankEngine& engine) {
    ASSERT_TRUE(FillStep(rank.config, *sampler_, 6, 2, 1, engine).ok());
    const bool last = rank.config.rank == 2;
    for (int mb = 0; mb < 3; ++mb) {
      const int first = mb * 32 + (last ? 0 : rank.config.rank.value() * 16);
      EXPECT_EQ(engine.keys(mb)[kFirstToken], first);
      const auto& expected = last ? targets : tokens;
      const int32_t* found = last ? engine.targets(mb) : engine.tokens(mb);
      EXPECT_TRUE(
          std::equal(expected.begin() + first, expected.begin() + first + (last ? 32 : 16), found));
    }
    EXPECT_FLOAT_EQ(engine.scalars()[kLossWeight], 1.0f / 96);
  });
}

// What `stretto data batch` says about a step is what its micro-batches get.
TEST_F(FillStepTest, ConsumesTheBatchThatIsDescribed) {
  config_.data.seed = 7;
  const TrainingData data = TrainingData::Open(config_.data).value();
  for (const int64_t step : {1, 2, 9}) {
    const int64_t consumed = (step - 1) * config_.engine.sequences_per_step();
    ASSERT_TRUE(FillStep(config_, data.train(), consumed, step, step - 1, *engine_).ok());
    const auto described = DescribeBatch({.data = config_.data,
                                          .sequences = config_.engine.sequences_per_step(),
                                          .step = step,
                                          .format = OutputFormat::kJson});
    ASSERT_TRUE(described.ok()) << described.status();
    const auto samples = nlohmann::json::parse(*described)["samples"];
    ASSERT_EQ(samples.size(), 6u);
    for (int mb = 0; mb < 3; ++mb) {
      for (int row = 0; row < 2; ++row) {
        const int32_t* tokens = engine_->tokens(mb) + row * 8;
        EXPECT_EQ(samples[static_cast<size_t>(mb * 2 + row)]["tokens"],
                  std::vector<int32_t>(tokens, tokens + 8));
      }
    }
  }
}

TEST_F(FillStepTest, BiasCorrectionCountsUpdatesNotSteps) {
  ASSERT_TRUE(FillStep(config_, *sampler_, 6, 7, 1, *engine_).ok());
  EXPECT_FLOAT_EQ(engine_->scalars()[kLearningRate], 0.5f);
  EXPECT_FLOAT_EQ(engine_->scalars()[kBiasCorrection1], 1 - 0.25f);
  EXPECT_FLOAT_EQ(engine_->scalars()[kBiasCorrection2], 1 - 0.5625f);
  EXPECT_FLOAT_EQ(engine_->scalars()[kLossWeight], 1.0f / 48);
}

// The same step draws the same numbers again, another step others.
TEST_F(FillStepTest, DropoutFollowsTheStep) {
  const auto loss = [&](int64_t step) {
    EXPECT_TRUE(engine_->Initialise(config_.seed).ok());
    EXPECT_TRUE(FillStep(config_, *sampler_, 0, step, 0, *engine_).ok());
    EXPECT_TRUE(engine_->executor().Run().ok());
    return engine_->MeanLoss();
  };
  const double first = loss(1);
  EXPECT_NE(loss(2), first);
  EXPECT_EQ(loss(1), first);
}

TEST(UnslicedTest, KeepsTheModelAndDropsWhatTheScheduleAdds) {
  EngineSpec spec;
  spec.model = {.architecture = ArchitectureOf(Family::kLlama), .layers = 3, .dropout = 0.1};
  spec.micro_batch_size = 4;
  spec.wire_dtype = DType::kBF16;
  spec.schedule = {.name = "domino_hybrid",
                   .slices = {3, 1},
                   .splits = 2,
                   .sequence_parallel = true,
                   .recompute = Recompute::kFull,
                   .defer_wgrads = 2,
                   .merge_wgrads = 2};
  const EngineSpec plain = Unsliced(spec);
  EXPECT_EQ(plain.model.architecture.family, Family::kLlama);
  EXPECT_EQ(plain.model.dropout, 0.1);
  EXPECT_EQ(plain.wire_dtype, DType::kBF16);
  EXPECT_EQ(plain.schedule.name, "megatron_sync");
  EXPECT_THAT(plain.schedule.slices, ElementsAre(4));
  EXPECT_EQ(plain.schedule.splits, 1);
  EXPECT_FALSE(plain.schedule.sequence_parallel);
  EXPECT_EQ(plain.schedule.recompute, Recompute::kNone);
  EXPECT_EQ(plain.schedule.defer_wgrads, 0);
  EXPECT_EQ(plain.schedule.merge_wgrads, 0);
}

}  // namespace
}  // namespace stretto::trainer
