// SPDX-License-Identifier: Apache-2.0

// Skipped updates do not count, nor after a resume: AdamW's bias corrections follow the updates,
// everything else the steps.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tests/worker/trainer/training.h"
#include "worker/trainer/saved_state.h"

namespace stretto::trainer {
namespace {

constexpr int kSkipped = 2;  // the step whose gradient norm is not finite

struct Trained {
  TrainState state;
  std::map<std::string, std::vector<float>> tensors;  // masters and moments
};

class SkippedUpdatesTest : public TrainingTest {
 protected:
  // To the end of the config's steps, from what it resumes from.
  Trained TrainOn() {
    RankEngine* engine = nullptr;
    const auto made = MakeEngine([&](OpId op, int64_t) {
      const bool first = engine->program().ops[op].kind == OpKind::kSumSquares;
      if (!first || engine->keys(0)[kStepNumber] != kSkipped) return;
      engine->Gradient(0)->as<float>()[0] = std::numeric_limits<float>::infinity();
    });
    engine = made.get();
    EXPECT_TRUE(engine->Initialise(1).ok());
    TrainState from;
    const auto group = LocalGroup::Create(1);
    const auto saved = FindSavedState(config_, *group[0]).value();
    if (saved != nullptr) from = Resume(config_, "", *saved, *engine).value();
    Trained trained{Run(*engine, from).state, {}};
    for (const ShardTensor& tensor : engine->StateTensors()) {
      const auto* values = static_cast<const float*>(*tensor.data.fetch());
      const auto count = *TensorBytes("F32", tensor.extents) / int64_t{sizeof(float)};
      trained.tensors[tensor.name] = {values, values + count};
    }
    return trained;
  }
};

TEST_F(SkippedUpdatesTest, AResumeContinuesTheCountOfUpdates) {
  config_.checkpoint_folder = folder_ / "straight";
  const Trained straight = TrainOn();
  EXPECT_EQ(straight.state.step, 6);
  EXPECT_EQ(straight.state.updates, 5);

  config_.checkpoint_folder = folder_ / "parts";
  config_.steps = 4;
  EXPECT_EQ(TrainOn().state.updates, 3);
  config_.resume_folder = config_.checkpoint_folder;
  config_.steps = 6;
  const Trained resumed = TrainOn();
  EXPECT_EQ(resumed.state.step, 6);
  EXPECT_EQ(resumed.state.updates, 5);
  EXPECT_EQ(resumed.tensors, straight.tensors);
  for (const auto& [name, values] : straight.tensors) {
    EXPECT_THAT(values, testing::Each(testing::Truly([](float v) { return std::isfinite(v); })))
        << name;
  }
}

}  // namespace
}  // namespace stretto::trainer
