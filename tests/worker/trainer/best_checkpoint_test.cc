// SPDX-License-Identifier: Apache-2.0

// Losses in checkpoints, and the best checkpoint of a job that trains.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "tests/worker/trainer/training.h"

namespace stretto::trainer {
namespace {

using testing::ElementsAre;

class BestCheckpointTest : public TrainingTest {};

// An evaluation follows every other step, and every checkpoint has one.
TEST_F(BestCheckpointTest, TheBestCheckpointIsKeptAndReported) {
  Evaluate();
  config_.steps = 12;
  config_.checkpoint_interval = 2;
  config_.checkpoint_keep = 1;
  config_.checkpoint_keep_best = true;
  const auto best = [&] {
    std::pair<double, int64_t> best = {std::numeric_limits<double>::infinity(), 0};
    for (const v1alpha1::StepReport& step : StepReports()) {
      if (step.has_evaluation()) best = std::min(best, {step.evaluation().loss(), step.step()});
    }
    return best.second;
  };
  ASSERT_EQ(Run().reason, ExitReason::kCompleted);
  ASSERT_LT(best(), 12) << "the last is the best, so this test shows nothing";
  EXPECT_THAT(Saved(), ElementsAre(best(), 12));
  EXPECT_EQ(SavedState(best()).loss, SavedState(12).best_loss);
  const auto reports = ReadAfter(folder_ / "reports.log", 0);
  std::string named;
  for (const v1alpha1::RankReport& report : *reports)
    if (report.has_checkpoint()) named = report.checkpoint().best();
  EXPECT_EQ(named, CheckpointName(best()));
  // A later attempt keeps it too.
  config_.epoch = 1;
  config_.steps = 16;
  TrainState state{.step = 12, .updates = 12, .consumed_samples = 72};
  state.held_out = SavedState(12);
  Run(state);
  EXPECT_THAT(Saved(), ElementsAre(best(), 16));
}

TEST_F(BestCheckpointTest, ACheckpointBetweenEvaluationsHasNoLoss) {
  Evaluate();
  config_.steps = 4;
  Run();
  EXPECT_FALSE(SavedState(1).loss.has_value());
  EXPECT_EQ(SavedState(2).loss, StepReports()[1].evaluation().loss());
  EXPECT_FALSE(SavedState(3).loss.has_value());
}

}  // namespace
}  // namespace stretto::trainer
