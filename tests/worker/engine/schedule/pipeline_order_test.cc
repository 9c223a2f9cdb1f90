// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/schedule/pipeline/order.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;

// "F0 F1 B0 ...", with a prime for each chunk behind the first; "F2+B0" share a cell.
std::string TextOf(const PipelineOrder& order) {
  std::string text;
  for (const Cell& cell : order.cells) {
    const char* gap = text.empty() ? "" : " ";
    for (const Turn& turn : cell) {
      absl::StrAppend(&text, gap, std::string(1, "FBW"[static_cast<size_t>(turn.pass)]),
                      turn.micro_batch, std::string(static_cast<size_t>(turn.chunk), '\''));
      gap = "+";
    }
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

PipelineOrder Interleaved(int stage, int stages, int chunks, int micro_batches) {
  return OrderFor(
      ScheduleSpec{.pipeline = "interleaved_1f1b"},
      {.stage = stage, .stages = stages, .micro_batches = micro_batches, .chunks = chunks});
}

TEST(PipelineOrderTest, InterleavedPassesGoThroughTheChunksInGroups) {
  const auto turns = [](int stage, int micro_batches) {
    return TextOf(Interleaved(stage, 2, 2, micro_batches));
  };
  EXPECT_EQ(turns(0, 4), "F0 F1 F0' F1' F2 B0' F3 B1' F2' B0 F3' B1 B2' B3' B2 B3");
  EXPECT_EQ(turns(1, 4), "F0 F1 F0' B0' F1' B1' F2 B0 F3 B1 F2' B2' F3' B3' B2 B3");
  EXPECT_EQ(turns(0, 2), "F0 F1 F0' F1' B0' B1' B0 B1");
  EXPECT_EQ(TextOf(Interleaved(2, 3, 3, 3)),
            "F0 F1 F2 F0' F1' F2' F0'' B0'' F1'' B1'' F2'' B2'' B0' B1' B2' B0 B1 B2");
}

// (v - 1) p passes up to the last chunk, and two for each stage that follows.
TEST(PipelineOrderTest, InterleavedWarmUpsAreThoseOfMegatron) {
  for (int stages : {2, 4, 8}) {
    for (int chunks : {2, 4}) {
      for (int stage = 0; stage < stages; ++stage) {
        const std::vector<Cell> cells = Interleaved(stage, stages, chunks, 8 * stages).cells;
        const auto backward = std::find_if(cells.begin(), cells.end(), [](const Cell& cell) {
          return cell.front().pass == PassKind::kBackward;
        });
        // The steady state's first forward pass is behind the warm-ups that Megatron counts.
        EXPECT_EQ(backward - cells.begin() - 1, (stages - stage - 1) * 2 + (chunks - 1) * stages);
      }
    }
  }
}

TEST(PipelineOrderTest, ChunksKeepWhatTheyHaveInFlight) {
  const PipelineOrder first = Interleaved(0, 4, 2, 16), last = Interleaved(3, 4, 2, 16);
  const auto kept = [](const PipelineOrder& order, int chunk) {
    return order.InFlight(PassKind::kForward, PassKind::kBackward, chunk);
  };
  EXPECT_EQ(kept(first, 0), 8);
  EXPECT_EQ(kept(first, 1), 4);
  EXPECT_EQ(kept(last, 0), 5);
  EXPECT_EQ(kept(last, 1), 1);
  EXPECT_EQ(first.InFlight(), 8);
}

TEST(PipelineOrderTest, ForwardAloneHasTheOrderOfForward) {
  const PipelineOrder order =
      ForwardAlone({}, {.stage = 1, .stages = 2, .micro_batches = 5, .chunks = 2});
  EXPECT_EQ(TextOf(order), "F0 F1 F0' F1' F2 F3 F2' F3' F4 F4'");
  EXPECT_EQ(order.begin, 0);
  EXPECT_EQ(order.end, 8);
  EXPECT_EQ(order.period, 4);
  EXPECT_EQ(order.stride, 2);
  EXPECT_EQ(TextOf(ForwardAlone({}, {.micro_batches = 3})), "F0 F1 F2");
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

void ExpectOrder(const PipelineOrder& order, const StageOfPipeline& at, size_t passes) {
  std::map<int, std::array<int, 3>> next;  // by chunk
  for (const Cell& cell : order.cells) {
    for (const Turn& turn : cell) {
      std::array<int, 3>& of_chunk = next[turn.chunk];
      EXPECT_EQ(turn.micro_batch, of_chunk[static_cast<size_t>(turn.pass)]++);
      EXPECT_LE(of_chunk[1], of_chunk[0]);
      EXPECT_LE(of_chunk[2], of_chunk[1]);
    }
  }
  EXPECT_EQ(next.size(), static_cast<size_t>(at.chunks));
  for (const auto& [chunk, of_chunk] : next) {
    for (size_t pass = 0; pass < 3; ++pass)
      EXPECT_EQ(of_chunk[pass], pass < passes ? at.micro_batches : 0);
  }
  ASSERT_EQ((order.end - order.begin) % order.period, 0);
  ASSERT_LE(order.end, std::ssize(order.cells));
  for (int i = order.begin + order.period; i < order.end; ++i) {
    Cell cell = order.cells[static_cast<size_t>(i - order.period)];
    for (Turn& turn : cell) turn.micro_batch += order.stride;
    EXPECT_EQ(order.cells[static_cast<size_t>(i)], cell);
  }
}

ScheduleSpec In(const PipelineRules& rules) {
  return {.name = rules.folds ? "helix" : "megatron_sync", .pipeline = rules.name};
}

// Every order: each pass of a chunk once, in the order of micro-batches, one behind the other; the
// declared repeat is one. A last group of interleaved stages may have fewer micro-batches.
TEST(PipelineOrderTest, EveryOrderIsOne) {
  for (const PipelineRules& rules : kPipelines) {
    for (int stages : {1, 2, 5}) {
      for (int stage = 0; stage < stages; ++stage) {
        for (int micro_batches : {1, 3, 12}) {
          for (int chunks : rules.folds     ? std::vector<int>{2}
                            : rules.chunked ? std::vector<int>{2, 3}
                                            : std::vector<int>{1}) {
            const StageOfPipeline at = {
                .stage = stage, .stages = stages, .micro_batches = micro_batches, .chunks = chunks};
            ExpectOrder(OrderFor(In(rules), at), at, 2);
            ExpectOrder(ForwardAlone(In(rules), at), at, 1);
            if (rules.adjustable) ExpectOrder(OrderFor(Delaying(rules.name), at), at, 3);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace stretto
