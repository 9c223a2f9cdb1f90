// SPDX-License-Identifier: Apache-2.0

// Data of which every third token is trained on: what the host writes before a step, the losses
// that are reported, and evaluations.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "kernels/target.h"
#include "tests/worker/trainer/local_job.h"
#include "tests/worker/trainer/training.h"
#include "worker/data/mask.h"
#include "worker/data/tokenizer_info.h"
#include "worker/trainer/agreement/sum_in_turn.h"
#include "worker/trainer/profile.h"

namespace stretto::trainer {
namespace {

class MaskedTargetsTest : public TrainingTest {
 protected:
  MaskedTargetsTest() {
    WriteMask([](int64_t token) { return token % 3 == 0; });
    Open();
  }

  void WriteMask(const std::function<bool(int64_t)>& trained) {
    auto writer = IndexedDatasetWriter::Create(MaskPrefix(folder_ / "text"), TokenType::kU8, true);
    std::vector<int32_t> mask(97);
    for (size_t i = 0; i < mask.size(); ++i) mask[i] = trained(static_cast<int64_t>(i)) ? 1 : 0;
    EXPECT_TRUE(writer->AddDocument(mask).ok() && writer->Finish().ok());
    EXPECT_TRUE(WriteTokenizerInfo(folder_ / "text", {"bytes", 100, 99, "abc"}, true).ok());
  }
  void Open() {
    data_.emplace(TrainingData::Open(config_.data).value());
    sampler_ = std::make_unique<Sampler>(data_->train());
  }
  // The targets of samples [first, first + count) that count.
  int64_t Counted(int64_t first, int64_t count) {
    std::vector<int32_t> targets(static_cast<size_t>(count) * 8);
    EXPECT_TRUE(sampler_->ReadBatch(first, count, nullptr, targets.data()).ok());
    return std::count_if(targets.begin(), targets.end(), [](int32_t t) { return t >= 0; });
  }

  std::optional<TrainingData> data_;
};

TEST_F(MaskedTargetsTest, AStepHasTheTargetsThatCountAndTheirWeight) {
  const auto engine = MakeEngine();
  const auto targets = FillStep(config_, *sampler_, 6, 2, 1, *engine);
  ASSERT_TRUE(targets.ok()) << targets.status();
  EXPECT_EQ(*targets, Counted(6, 6));
  EXPECT_LT(*targets, 6 * 8);
  EXPECT_FLOAT_EQ(engine->scalars()[kLossWeight], 1.0f / static_cast<float>(*targets));
  int64_t written = 0;
  for (int mb = 0; mb < 3; ++mb) {
    for (int i = 0; i < 16; ++i) {
      const int32_t target = engine->targets(mb)[i];
      EXPECT_TRUE(target == kNoTarget || target % 3 == 0) << target;
      written += target == kNoTarget ? 0 : 1;
    }
  }
  EXPECT_EQ(written, *targets);
}

TEST_F(MaskedTargetsTest, EveryReplicaAndStageHasTheSameWeight) {
  config_.engine.dp_size = config_.engine.pp_size = 2;
  config_.engine.model.layers = 2;
  const int64_t counted = Counted(6, 12);
  OnLocalEngines(config_, [&](LocalRank& rank, RankEngine& engine) {
    EXPECT_EQ(FillStep(rank.config, *sampler_, 6, 2, 1, engine).value(), counted);
    EXPECT_FLOAT_EQ(engine.scalars()[kLossWeight], 1.0f / static_cast<float>(counted));
  });
}

// The mean over the targets of all replicas, not the mean of their means.
TEST_F(MaskedTargetsTest, TheLossOfAStepIsTheMeanOverItsTargets) {
  for (int dp_size : {1, 2}) {
    config_.engine.dp_size = dp_size;
    const int64_t counted = Counted(0, 6 * dp_size);
    OnLocalEngines(config_, [&](LocalRank& rank, RankEngine& engine) {
      const int64_t targets = FillStep(rank.config, *sampler_, 0, 1, 0, engine).value();
      ASSERT_TRUE(engine.executor().Run().ok());
      const std::vector<double> sums = engine.LossSums();
      const double loss = MeanLossOfStep(rank.config.engine, *rank.control, sums, targets).value();
      const double all = SumInTurn(rank.config.engine, *rank.control, sums).value();
      EXPECT_EQ(loss, all / static_cast<double>(counted));
      EXPECT_GT(loss, 1);
      EXPECT_LT(loss, 10);
    });
  }
}

TEST_F(MaskedTargetsTest, TrainingReportsAndEvaluatesTheMeanOverTargets) {
  Evaluate();
  config_.steps = 2;
  const auto engine = MakeEngine();
  ASSERT_TRUE(engine->Initialise(1).ok());
  const int64_t targets = FillStep(config_, *sampler_, 0, 1, 0, *engine).value();
  ASSERT_TRUE(engine->executor().Run().ok());
  const std::vector<double> sums = engine->LossSums();
  const double sum = std::accumulate(sums.begin(), sums.end(), 0.0);
  ASSERT_EQ(Run().reason, ExitReason::kCompleted);
  const std::vector<v1alpha1::StepReport> steps = StepReports();
  EXPECT_EQ(steps.at(0).loss(), sum / static_cast<double>(targets));
  EXPECT_EQ(steps.at(0).tokens(), 6 * 8);  // consumed
  // A batch of two sequences in the order of the data: tokens 1 to 16 are predicted.
  ASSERT_TRUE(steps.at(1).has_evaluation());
  EXPECT_EQ(steps.at(1).evaluation().tokens(), 5);
  EXPECT_GT(steps.at(1).evaluation().loss(), 1);
}

TEST_F(MaskedTargetsTest, AStepWithoutTargetsHasNoLossAndIsFinite) {
  WriteMask([](int64_t) { return false; });
  Open();
  config_.steps = 1;
  ASSERT_EQ(Run().reason, ExitReason::kCompleted);
  EXPECT_EQ(StepReports().at(0).loss(), 0);
  EXPECT_EQ(StepReports().at(0).grad_norm(), 0);
  EXPECT_FALSE(StepReports().at(0).norm_not_finite());
}

TEST_F(MaskedTargetsTest, AnEvaluationOfNothingIsRefused) {
  WriteMask([](int64_t token) { return token > 40; });
  Open();
  Evaluate();
  const absl::Status status = OpenHeldOut(config_, *data_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("eval.batches: found no token in 1 batches of 2 sequences that is "
                                 "trained on"));
  config_.evaluation.batches = 3;  // which reach beyond token 40
  EXPECT_TRUE(OpenHeldOut(config_, *data_).ok());
}

}  // namespace
}  // namespace stretto::trainer
