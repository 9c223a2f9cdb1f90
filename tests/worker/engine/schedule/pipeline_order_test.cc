// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/schedule/pipeline/order.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;

// "F0 F1 B0 ..."
std::string TextOf(const PipelineOrder& order) {
  std::string text;
  for (const Turn& turn : order.turns) {
    absl::StrAppend(&text, text.empty() ? "" : " ",
                    std::string(1, "FBW"[static_cast<size_t>(turn.pass)]), turn.micro_batch);
  }
  return text;
}

ScheduleSpec Delaying(const std::string& name) {
  return {.pipeline = name, .wgrad_delay = WgradDelay::kBubble};
}

std::string TurnsOf(const std::string& name, int stage, int stages, int micro_batches) {
  return TextOf(OrderFor(ScheduleSpec{.pipeline = name},
                         {.stage = stage, .stages = stages, .micro_batches = micro_batches}));
}

TEST(PipelineOrderTest, OneForwardOneBackwardKeepsOneMicroBatchForEachStageToTheEnd) {
  EXPECT_EQ(TurnsOf("1f1b", 0, 3, 4), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(TurnsOf("1f1b", 1, 3, 4), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(TurnsOf("1f1b", 2, 3, 4), "F0 B0 F1 B1 F2 B2 F3 B3");
}

TEST(PipelineOrderTest, EagerRunsOneMicroBatchFurtherAheadForEachStage) {
  EXPECT_EQ(TurnsOf("eager_1f1b", 0, 2, 4), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(TurnsOf("eager_1f1b", 1, 2, 4), "F0 B0 F1 B1 F2 B2 F3 B3");
}

TEST(PipelineOrderTest, GPipeComputesAllForwardPassesFirst) {
  EXPECT_EQ(TurnsOf("gpipe", 1, 2, 3), "F0 F1 F2 B0 B1 B2");
}

TEST(PipelineOrderTest, FewMicroBatchesAreAllInFlight) {
  EXPECT_EQ(TurnsOf("1f1b", 0, 8, 2), "F0 F1 B0 B1");
  EXPECT_EQ(TurnsOf("eager_1f1b", 0, 8, 1), "F0 B0");
}

TEST(PipelineOrderTest, WarmUpsByHandReplaceThoseOfTheOrder) {
  const ScheduleSpec schedule{.pipeline = "eager_1f1b", .warm_up = {4, 2, 1}};
  const auto turns = [&](int stage, int micro_batches) {
    return TextOf(
        OrderFor(schedule, {.stage = stage, .stages = 3, .micro_batches = micro_batches}));
  };
  EXPECT_EQ(turns(0, 5), "F0 F1 F2 F3 B0 F4 B1 B2 B3 B4");
  EXPECT_EQ(turns(1, 3), "F0 F1 B0 F2 B1 B2");
  EXPECT_EQ(turns(2, 2), "F0 B0 F1 B1");
}

TEST(PipelineOrderTest, WeightsFollowByAsManyMicroBatchesAsTheFirstStageIsAhead) {
  const auto turns = [](const ScheduleSpec& schedule, int stage, int micro_batches) {
    return TextOf(
        OrderFor(schedule, {.stage = stage, .stages = 3, .micro_batches = micro_batches}));
  };
  EXPECT_EQ(turns(Delaying("1f1b"), 0, 4), "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
  EXPECT_EQ(turns(Delaying("1f1b"), 1, 4), "F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3");
  EXPECT_EQ(turns(Delaying("1f1b"), 2, 4), "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3");
  EXPECT_EQ(turns(Delaying("1f1b"), 2, 2), "F0 B0 F1 B1 W0 W1");
  EXPECT_EQ(turns(Delaying("eager_1f1b"), 1, 5), "F0 F1 F2 B0 F3 B1 F4 B2 W0 B3 W1 B4 W2 W3 W4");
  ScheduleSpec by_hand = Delaying("1f1b");
  by_hand.warm_up = {4, 2, 1};
  EXPECT_EQ(turns(by_hand, 1, 4), "F0 F1 B0 F2 B1 F3 B2 W0 B3 W1 W2 W3");
}

TEST(PipelineOrderTest, NoStageKeepsMoreForWeightsThanTheFirst) {
  for (const char* name : {"1f1b", "eager_1f1b"}) {
    for (int micro_batches : {2, 16}) {
      const auto order = [&](int stage) {
        return OrderFor(Delaying(name),
                        {.stage = stage, .stages = 4, .micro_batches = micro_batches});
      };
      const int most = OrderFor(ScheduleSpec{.pipeline = name},
                                {.stage = 0, .stages = 4, .micro_batches = micro_batches})
                           .InFlight();
      for (int stage = 0; stage < 4; ++stage) EXPECT_EQ(order(stage).InFlight(), most);
      EXPECT_EQ(order(3).InFlight(PassKind::kForward, PassKind::kBackward), 1);
      EXPECT_EQ(order(3).InFlight(PassKind::kBackward, PassKind::kWeights), most);
      EXPECT_EQ(order(0).InFlight(PassKind::kBackward, PassKind::kWeights), 1);
    }
  }
}

TEST(PipelineOrderTest, InFlightCountsForwardPassesWithoutTheirBackward) {
  std::vector<int> in_flight;
  for (const char* name : {"1f1b", "eager_1f1b", "gpipe"})
    in_flight.push_back(
        OrderFor(ScheduleSpec{.pipeline = name}, {.stage = 0, .stages = 4, .micro_batches = 16})
            .InFlight());
  EXPECT_THAT(in_flight, ElementsAre(4, 7, 16));
}

void ExpectOrder(const PipelineOrder& order, int micro_batches, size_t passes) {
  int next[3] = {0, 0, 0};
  for (const Turn& turn : order.turns) {
    EXPECT_EQ(turn.micro_batch, next[static_cast<size_t>(turn.pass)]++);
    EXPECT_LE(next[1], next[0]);
    EXPECT_LE(next[2], next[1]);
  }
  for (size_t pass = 0; pass < 3; ++pass) EXPECT_EQ(next[pass], pass < passes ? micro_batches : 0);
  ASSERT_EQ((order.end - order.begin) % order.period, 0);
  for (int i = order.begin + order.period; i < order.end; ++i) {
    const auto turn = [&](int at) { return order.turns[static_cast<size_t>(at)]; };
    EXPECT_EQ(turn(i).pass, turn(i - order.period).pass);
    EXPECT_EQ(turn(i).micro_batch, turn(i - order.period).micro_batch + 1);
  }
}

// Every order: each pass once, in the order of micro-batches, one behind the other; the declared
// repeat is one.
TEST(PipelineOrderTest, EveryOrderIsOne) {
  for (const PipelineRules& rules : kPipelines) {
    for (int stages : {1, 2, 5}) {
      for (int stage = 0; stage < stages; ++stage) {
        for (int micro_batches : {1, 3, 12}) {
          const StageOfPipeline at = {
              .stage = stage, .stages = stages, .micro_batches = micro_batches};
          ExpectOrder(OrderFor(ScheduleSpec{.pipeline = rules.name}, at), micro_batches, 2);
          if (rules.adjustable) ExpectOrder(OrderFor(Delaying(rules.name), at), micro_batches, 3);
        }
      }
    }
  }
}

}  // namespace
}  // namespace stretto
