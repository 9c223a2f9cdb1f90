// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/schedule/pipeline/timetable.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> TextOf(const Timetable& timetable) {
  std::vector<std::string> cells;
  for (const Cell& cell : timetable.cells) {
    cells.emplace_back();
    for (const Turn& strand : cell) {
      cells.back() += strand.pass == PassKind::kForward ? "f" : "b";
      cells.back() += std::to_string(strand.micro_batch);
    }
  }
  return cells;
}

TEST(TimetableTest, HelixPairsEachForwardWithTheBackwardBefore) {
  const Timetable helix = HelixOf(4);
  EXPECT_THAT(TextOf(helix), ElementsAre("f0", "f1b0", "f2b1", "f3b2", "b3"));
  EXPECT_EQ(helix.begin, 1);
  EXPECT_EQ(helix.end, 4);
  EXPECT_EQ(helix.period, 1);
  EXPECT_EQ(helix.stride, 1);
}

TEST(TimetableTest, HelixOfOneMicroBatchRepeatsNothing) {
  const Timetable helix = HelixOf(1);
  EXPECT_THAT(TextOf(helix), ElementsAre("f0", "b0"));
  EXPECT_EQ(helix.begin, helix.end);
}

TEST(TimetableTest, EachPassOfAPipelineIsACell) {
  const PipelineOrder order = InTurn(2, {.stage = 0, .stages = 2, .micro_batches = 3});
  const Timetable timetable = OneByOne(order);
  EXPECT_THAT(TextOf(timetable), ElementsAre("f0", "f1", "b0", "f2", "b1", "b2"));
  EXPECT_EQ(timetable.begin, order.begin);
  EXPECT_EQ(timetable.end, order.end);
  EXPECT_EQ(timetable.period, order.period);
  EXPECT_EQ(timetable.stride, order.stride);
}

}  // namespace
}  // namespace stretto
