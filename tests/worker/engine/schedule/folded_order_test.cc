// SPDX-License-Identifier: Apache-2.0

// The order of schedules that weave: of one stage, and of stages that are folded.

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/schedule/pipeline/order.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;

// "F1 B0'" of a cell, with a prime for the second chunk.
std::vector<std::string> TextOf(const PipelineOrder& order) {
  std::vector<std::string> cells;
  for (const Cell& cell : order.cells) {
    std::string& text = cells.emplace_back();
    for (const Turn& turn : cell) {
      text += text.empty() ? "" : " ";
      text += turn.pass == PassKind::kForward ? "F" : turn.pass == PassKind::kEmbedding ? "E" : "B";
      text += std::to_string(turn.micro_batch) + (turn.chunk == 1 ? "'" : "");
    }
  }
  return cells;
}

StageOfPipeline At(int stage, int stages, int micro_batches) {
  return {.stage = stage, .stages = stages, .micro_batches = micro_batches, .chunks = 2};
}

TEST(FoldedOrderTest, OneStagePairsEachForwardWithTheBackwardBefore) {
  const PipelineOrder helix = Folded({.micro_batches = 4});
  EXPECT_THAT(TextOf(helix), ElementsAre("E0", "F0 E1", "F1 B0 E2", "F2 B1 E3", "F3 B2", "B3"));
  EXPECT_EQ(helix.begin, 2);
  EXPECT_EQ(helix.end, 4);
  EXPECT_EQ(helix.period, 1);
  EXPECT_EQ(helix.stride, 1);
}

TEST(FoldedOrderTest, OneMicroBatchRepeatsNothing) {
  const PipelineOrder helix = Folded({.micro_batches = 1});
  EXPECT_THAT(TextOf(helix), ElementsAre("F0", "B0"));
  EXPECT_EQ(helix.begin, helix.end);
}

TEST(FoldedOrderTest, StagesPairTheWayDownWithTheWayUp) {
  EXPECT_THAT(TextOf(Folded(At(0, 2, 4))),
              ElementsAre("F0", "F1", "F0'", "F2 B0'", "F1'", "F3 B1'", "F2' B0", "B2'", "F3' B1",
                          "B3'", "B2", "B3"));
  EXPECT_THAT(TextOf(Folded(At(1, 2, 4))),
              ElementsAre("F0", "F0'", "F1", "F1'", "F2 B0'", "F2' B0", "F3 B1'", "F3' B1", "B2'",
                          "B2", "B3'", "B3"));
  EXPECT_THAT(TextOf(Folded(At(0, 1, 2))),
              ElementsAre("F0", "F0'", "F1 B0'", "F1' B0", "B1'", "B1"));
}

TEST(FoldedOrderTest, ForwardAloneHasTheOrderOfForward) {
  const PipelineOrder order = ForwardAlone({.pipeline = "folded"}, At(0, 2, 3));
  EXPECT_THAT(TextOf(order), ElementsAre("F0", "F1", "F0'", "F2", "F1'", "F2'"));
  EXPECT_EQ(order.begin, 1);
  EXPECT_EQ(order.end, 5);
  EXPECT_EQ(order.period, 2);
}

TEST(FoldedOrderTest, EveryStageKeepsAsManyChunksAlive) {
  for (int stages : {1, 2, 4, 8}) {
    for (int stage = 0; stage < stages; ++stage) {
      const PipelineOrder order = Folded(At(stage, stages, 6 * stages));
      EXPECT_EQ(order.InFlight(PassKind::kForward, PassKind::kBackward, 0), 2 * stages - stage);
      EXPECT_EQ(order.InFlight(PassKind::kForward, PassKind::kBackward, 1), stage + 1);
    }
  }
}

// A pipeline of numbers: the time of a step if transfers take none. Both passes of a cell begin
// when what they need is computed. `alone` is the time of forward and of backward of a chunk, each
// without a partner; a woven cell takes `woven`.
struct Seconds {
  double forward = 0, backward = 0, woven = 0;
};
double StepOf(int stages, int micro_batches, const Seconds& seconds) {
  std::map<std::tuple<bool, int, int>, double> done;  // backward, chunk of the model, micro-batch
  std::vector<PipelineOrder> orders;
  for (int stage = 0; stage < stages; ++stage)
    orders.push_back(Folded(At(stage, stages, micro_batches)));
  std::vector<size_t> next(orders.size());
  std::vector<double> now(orders.size());
  const int last = 2 * stages - 1;
  const auto advance = [&](size_t stage) {
    if (next[stage] == orders[stage].cells.size()) return false;
    const Cell& cell = orders[stage].cells[next[stage]];
    double begin = now[stage];
    for (const Turn& turn : cell) {
      const bool backward = turn.pass == PassKind::kBackward;
      const int number = static_cast<int>(stage), chunk = turn.chunk == 0 ? number : last - number;
      if (!backward && chunk == 0) continue;
      const auto needed =
          done.find(backward && chunk == last
                        ? std::tuple(false, chunk, turn.micro_batch)
                        : std::tuple(backward, chunk + (backward ? 1 : -1), turn.micro_batch));
      if (needed == done.end()) return false;
      begin = std::max(begin, needed->second);
    }
    const bool forward = cell.front().pass == PassKind::kForward;
    const double takes = cell.size() == 2 ? seconds.woven
                         : forward        ? seconds.forward
                                          : seconds.backward;
    now[stage] = begin + takes;
    for (const Turn& turn : cell) {
      const int number = static_cast<int>(stage), chunk = turn.chunk == 0 ? number : last - number;
      done[{turn.pass == PassKind::kBackward, chunk, turn.micro_batch}] = now[stage];
    }
    ++next[stage];
    return true;
  };
  for (bool moves = true; moves;) {
    moves = false;
    for (size_t stage = 0; stage < orders.size(); ++stage) {
      while (advance(stage)) moves = true;
    }
  }
  for (size_t stage = 0; stage < orders.size(); ++stage)
    EXPECT_EQ(next[stage], orders[stage].cells.size()) << "stage " << stage << " waits forever";
  return *std::max_element(now.begin(), now.end());
}

// T = (M - 1) c + p (F + B) for M > p, where c, F and B are of two chunks.
TEST(FoldedOrderTest, AStepTakesTheTimeOfTheClosedForm) {
  for (const Seconds& seconds :
       {Seconds{1, 2, 3}, Seconds{1, 2, 2.25}, Seconds{2, 3, 4}, Seconds{1, 1, 1.5}}) {
    for (int stages : {1, 2, 4, 8}) {
      for (int micro_batches : {stages + 1, 2 * stages, 3 * stages, 4 * stages + 1}) {
        const double expected = (micro_batches - 1) * 2 * seconds.woven +
                                stages * 2 * (seconds.forward + seconds.backward);
        EXPECT_NEAR(StepOf(stages, micro_batches, seconds), expected, 1e-9)
            << stages << " stages, " << micro_batches << " micro-batches";
      }
    }
  }
}

}  // namespace
}  // namespace stretto
