// SPDX-License-Identifier: Apache-2.0

// Warm-ups by time, against a model of a pipeline: every stage computes its turns, transfers of one
// boundary and direction run one after the other, and memory is no limit.

#include "worker/engine/schedule/pipeline/slack.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/random.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/schedule/pipeline/order.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;

constexpr int kMicroBatches = 32;

struct Pipeline {
  std::vector<StageSeconds> stages;
  std::vector<BoundarySeconds> boundaries;

  std::vector<int> Slack() const { return SlackWarmUps(stages, boundaries, kMicroBatches); }
  // 1f1b with `slack` 0, eager with 1.
  std::vector<int> Even(int slack) const {
    std::vector<int> warm_ups;
    for (size_t behind = stages.size(); behind-- > 0;)
      warm_ups.push_back(static_cast<int>(behind) * (1 + slack) + 1);
    return warm_ups;
  }
};

Pipeline Even(int stages, double transfer, double delayed) {
  return {std::vector<StageSeconds>(static_cast<size_t>(stages),
                                    {.forward = 1, .backward = 2, .delayed = delayed}),
          std::vector<BoundarySeconds>(static_cast<size_t>(stages) - 1, {transfer, transfer})};
}

// One stage of the model. What arrives first is what is needed first.
struct Stage {
  std::vector<Cell> cells;
  size_t next = 0;
  double free = 0;
  std::vector<double> forward, backward;       // when inputs of micro-batches arrive
  double last_forward = 0, last_backward = 0;  // when the last transfer of each direction ends
};

// Returns the seconds of a step.
double StepSeconds(const Pipeline& pipeline, const std::vector<int>& warm_ups) {
  std::vector<Stage> stages(pipeline.stages.size());
  for (size_t i = 0; i < stages.size(); ++i)
    stages[i].cells = InTurn(warm_ups[i], {.micro_batches = kMicroBatches}).cells;
  const size_t last = stages.size() - 1;
  // Computes the next turn of a stage, if its input has arrived.
  const auto advance = [&](size_t i) {
    Stage& stage = stages[i];
    if (stage.next == stage.cells.size()) return false;
    const Turn& turn = stage.cells[stage.next].front();
    const bool forward = turn.pass == PassKind::kForward;
    const std::vector<double>& arrived = forward ? stage.forward : stage.backward;
    const auto mb = static_cast<size_t>(turn.micro_batch);
    if (i != (forward ? 0 : last)) {
      if (mb >= arrived.size()) return false;
      stage.free = std::max(stage.free, arrived[mb]);
    }
    const StageSeconds& time = pipeline.stages[i];
    stage.free += forward ? time.forward : time.backward;
    const double ready = forward ? stage.free : stage.free - time.delayed;
    if (forward && i < last) {
      stage.last_forward = std::max(stage.last_forward, ready) + pipeline.boundaries[i].forward;
      stages[i + 1].forward.push_back(stage.last_forward);
    } else if (!forward && i > 0) {
      stage.last_backward =
          std::max(stage.last_backward, ready) + pipeline.boundaries[i - 1].backward;
      stages[i - 1].backward.push_back(stage.last_backward);
    }
    ++stage.next;
    return true;
  };
  for (bool moves = true; moves;) {
    moves = false;
    for (size_t i = 0; i < stages.size(); ++i) {
      while (advance(i)) moves = true;
    }
  }
  double end = 0;
  for (const Stage& stage : stages) {
    EXPECT_EQ(stage.next, stage.cells.size()) << "deadlock";
    end = std::max(end, stage.free);
  }
  return end;
}

TEST(SlackTest, FreeTransfersNeedTheWarmUpsOf1f1b) {
  EXPECT_THAT(Even(4, 0, 0).Slack(), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(SlackWarmUps({{0, 0, 0}, {0, 0, 0}}, {{0, 0}}, 8), ElementsAre(2, 1));
  EXPECT_THAT(SlackWarmUps({{1, 2, 0}}, {}, 8), ElementsAre(1));
}

TEST(SlackTest, AddsOneForEachPeriodOfTheWayThereAndBack) {
  EXPECT_THAT(Even(3, 1.5, 0).Slack(), ElementsAre(5, 3, 1));  // 3 s of a period of 3 s
  EXPECT_THAT(Even(3, 1.6, 0).Slack(), ElementsAre(7, 4, 1));  // a little more
  EXPECT_THAT(Even(3, 1.6, 1).Slack(), ElementsAre(5, 3, 1));  // part of it hides under the delayed
  EXPECT_THAT(Even(3, 0.5, 1).Slack(), ElementsAre(3, 2, 1));  // all of it
  EXPECT_THAT(Even(3, 6, 0).Slack(), ElementsAre(7, 4, 1));    // the link is the period
}

TEST(SlackTest, EachBoundaryHasItsOwn) {
  const std::vector<StageSeconds> stages(3, {.forward = 1, .backward = 2, .delayed = 0});
  EXPECT_THAT(SlackWarmUps(stages, {{0, 0}, {2, 2}}, 32), ElementsAre(5, 4, 1));
  EXPECT_THAT(SlackWarmUps(stages, {{2, 0.5}, {0, 0}}, 32), ElementsAre(4, 2, 1));
}

TEST(SlackTest, WithLessMemoryTheFirstStagesGiveWay) {
  EXPECT_THAT(WithAtMost(9, {10, 7, 4, 1}), ElementsAre(10, 7, 4, 1));
  EXPECT_THAT(WithAtMost(4, {10, 7, 4, 1}), ElementsAre(8, 7, 4, 1));
  EXPECT_THAT(WithAtMost(1, {10, 7, 4, 1}), ElementsAre(5, 4, 3, 1));
  EXPECT_THAT(WithAtMost(0, {10, 7, 4, 1}), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(WithAtMost(1, {3, 3, 3, 1}), ElementsAre(3, 3, 3, 1));  // three micro-batches
  EXPECT_THAT(WithAtMost(0, {2, 2, 2, 1}), ElementsAre(2, 2, 2, 1));
}

TEST(SlackTest, NeverAsksForMoreThanAllMicroBatches) {
  EXPECT_THAT(SlackWarmUps(Even(4, 3, 0).stages, Even(4, 3, 0).boundaries, 5),
              ElementsAre(5, 5, 4, 1));
  EXPECT_THAT(SlackWarmUps({{1, 1, 0}, {1, 1, 0}}, {{1e300, 1e300}}, 4), ElementsAre(4, 1));
}

// Transfers then show only on the way of the first micro-batch to the last stage and back.
TEST(SlackTest, LeavesNothingButTheFill) {
  for (double delayed : {0.0, 1.0}) {
    for (int stages : {2, 4, 8}) {
      for (double transfer : {0.5, 1.0, 1.5, 2.0, 2.5, 3.0}) {
        const Pipeline pipeline = Even(stages, transfer, delayed);
        const double step = StepSeconds(pipeline, pipeline.Slack());
        const std::string which =
            absl::StrCat(stages, " stages, transfer ", transfer, ", delayed ", delayed);
        EXPECT_LE(step, 3 * (kMicroBatches + stages - 1) + 2 * (stages - 1) * transfer) << which;
        EXPECT_LE(step, 1.01 * StepSeconds(pipeline, pipeline.Even(0))) << which;
        EXPECT_LE(step, 1.01 * StepSeconds(pipeline, pipeline.Even(1))) << which;
      }
    }
  }
}

// The figures of eager 1F1B's paper for two stages, and those where one more is not enough.
TEST(SlackTest, AgreesWithPublishedStepTimes) {
  const auto step = [](int stages, double transfer, int slack) {
    const Pipeline pipeline = Even(stages, transfer, 0);
    return StepSeconds(pipeline, pipeline.Even(slack));
  };
  EXPECT_DOUBLE_EQ(step(2, 0.5, 0), 115);
  EXPECT_DOUBLE_EQ(step(2, 0.5, 1), 100);
  EXPECT_DOUBLE_EQ(step(8, 3, 1), 201);
  const Pipeline slow = Even(8, 3, 1);
  EXPECT_EQ(slow.Slack().front(), 22);
  EXPECT_DOUBLE_EQ(StepSeconds(slow, slow.Slack()), 158);
}

// Unlike stages and links: no worse, on average, than the best even slack.
TEST(SlackTest, IsNearTheBestForUnlikeStages) {
  uint32_t drawn = 0;
  const auto draw = [&](double low, double high) {
    return low + (high - low) * (Philox(7, drawn++, 0)[0] >> 8) / (1 << 24);
  };
  double sum = 0;
  constexpr int kPipelinesDrawn = 300;
  for (int i = 0; i < kPipelinesDrawn; ++i) {
    Pipeline pipeline = Even(2 + i % 7, 0, 0);
    for (StageSeconds& stage : pipeline.stages) {
      stage.forward = draw(0.5, 1.5);
      stage.backward = 2 * stage.forward;
      stage.delayed = i % 2 == 0 ? 0 : stage.forward;
    }
    for (BoundarySeconds& boundary : pipeline.boundaries) boundary = {draw(0, 3), draw(0, 3)};
    double best = StepSeconds(pipeline, pipeline.Even(0));
    for (int slack : {1, 2, 3}) best = std::min(best, StepSeconds(pipeline, pipeline.Even(slack)));
    const double ratio = StepSeconds(pipeline, pipeline.Slack()) / best;
    EXPECT_LE(ratio, 1.1) << absl::StrJoin(pipeline.Slack(), " ");
    sum += ratio;
  }
  EXPECT_LE(sum / kPipelinesDrawn, 1.01);
}

// Ranks 1 and 2 share the second stage; the first stage has one rank, to which one of them sends.
TEST(BehindSendTest, IsNothingWhereNothingIsSentBack) {
  Layout layout = Domino({1, 1}, 3, 2);
  layout.pp_size = 2;
  layout.stages = {{.layers = 1, .tp_size = 1}, {.layers = 1, .tp_size = 2}};
  layout.wgrad_delay = WgradDelay::kSend;
  EXPECT_TRUE(BehindSend(PlanOf(layout, 0).program).empty());
  EXPECT_FALSE(BehindSend(PlanOf(layout, 1).program).empty());
  EXPECT_TRUE(BehindSend(PlanOf(layout, 2).program).empty());
}

// All ranks of a stage delay the same weight gradients, whether they send or not.
TEST(BehindSendTest, RanksOfAStageHaveOneOrder) {
  Layout layout = Domino({1, 1}, 3, 2);
  layout.pp_size = 2;
  layout.stages = {{.layers = 1, .tp_size = 1}, {.layers = 1, .tp_size = 2}};
  layout.wgrad_delay = WgradDelay::kSend;
  const auto computed = [&](Rank rank) {
    std::vector<Tag> tags;
    const Program program = PlanOf(layout, rank).program;
    for (const Op& op : program.ops) {
      if (op.group < 0 && op.tag.micro_batch >= 0) tags.push_back(op.tag);
    }
    return tags;
  };
  EXPECT_EQ(computed(1), computed(2));
}

}  // namespace
}  // namespace stretto
