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
    absl::StrAppend(&text, text.empty() ? "" : " ", turn.backward ? "B" : "F", turn.micro_batch);
  }
  return text;
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

TEST(PipelineOrderTest, InFlightCountsForwardPassesWithoutTheirBackward) {
  std::vector<int> in_flight;
  for (const char* name : {"1f1b", "eager_1f1b", "gpipe"})
    in_flight.push_back(
        OrderFor(ScheduleSpec{.pipeline = name}, {.stage = 0, .stages = 4, .micro_batches = 16})
            .InFlight());
  EXPECT_THAT(in_flight, ElementsAre(4, 7, 16));
}

// Every order: each pass once, in the order of micro-batches, backward behind forward; the declared
// repeat is one.
TEST(PipelineOrderTest, EveryOrderIsOne) {
  for (const std::string& name : PipelineNames()) {
    for (int stages : {1, 2, 5}) {
      for (int stage = 0; stage < stages; ++stage) {
        for (int micro_batches : {1, 3, 12}) {
          const PipelineOrder order =
              OrderFor(ScheduleSpec{.pipeline = name},
                       {.stage = stage, .stages = stages, .micro_batches = micro_batches});
          int next[2] = {0, 0};
          for (const Turn& turn : order.turns) {
            EXPECT_EQ(turn.micro_batch, next[turn.backward ? 1 : 0]++);
            EXPECT_LE(next[1], next[0]);
          }
          EXPECT_EQ(next[0], micro_batches);
          EXPECT_EQ(next[1], micro_batches);
          ASSERT_EQ((order.end - order.begin) % order.period, 0);
          for (int i = order.begin + order.period; i < order.end; ++i) {
            const auto turn = [&](int at) { return order.turns[static_cast<size_t>(at)]; };
            EXPECT_EQ(turn(i).backward, turn(i - order.period).backward);
            EXPECT_EQ(turn(i).micro_batch, turn(i - order.period).micro_batch + 1);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace stretto
