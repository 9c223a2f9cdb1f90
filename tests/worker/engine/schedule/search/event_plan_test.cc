// SPDX-License-Identifier: Apache-2.0

// The search against all merges of small cells.

#include "worker/engine/schedule/search/event_plan.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/schedule/search/every_blocks.h"
#include "tests/worker/engine/schedule/search/every_merge.h"
#include "tests/worker/engine/schedule/search/random_cell.h"
#include "worker/engine/schedule/search/block_plan.h"

namespace stretto {
namespace {

CellPlan PlanFor(const CellItems& cell, size_t most_fronts = kMostFronts) {
  const absl::StatusOr<CellPlan> plan = EventPlan(cell, most_fronts);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *plan : CellPlan{};
}

TEST(EventPlanTest, TheShortestOfAllMerges) {
  CellMaker maker(1);
  int above_bound = 0;
  for (int run = 0; run < 1000; ++run) {
    const bool wide = run % 20 == 0;
    PerQueue<int> sizes = {7, 7, 1, 0};
    if (!wide) sizes = {maker.Below(6), maker.Below(6), maker.Below(4), maker.Below(2)};
    const CellItems cell = maker.Make(sizes);
    const CellPlan plan = PlanFor(cell);
    EXPECT_TRUE(plan.exact);
    EXPECT_EQ(plan.seconds, EveryMerge(cell).shortest()) << "run " << run;
    EXPECT_EQ(plan.seconds, CellPlayer(cell).SecondsOf(plan.order)) << "run " << run;
    EXPECT_LE(LowerBound(cell), plan.seconds) << "run " << run;
    above_bound += LowerBound(cell) < plan.seconds ? 1 : 0;
  }
  EXPECT_GT(above_bound, 300);  // the bound does not decide for the search
}

TEST(EventPlanTest, NarrowSearchesArePlayableAndSayThatTheyAreNotExact) {
  CellMaker maker(2);
  int worse = 0;
  for (int run = 0; run < 200; ++run) {
    const CellItems cell = maker.Make({7, 7, 4, 1});
    const CellPlan best = PlanFor(cell), narrow = PlanFor(cell, 1);
    EXPECT_EQ(narrow.seconds, CellPlayer(cell).SecondsOf(narrow.order)) << "run " << run;
    EXPECT_GE(narrow.seconds, best.seconds) << "run " << run;
    if (narrow.seconds == best.seconds) continue;
    EXPECT_FALSE(narrow.exact) << "run " << run;
    ++worse;
  }
  EXPECT_GT(worse, 20);
}

TEST(EventPlanTest, SearchesAgain) {
  for (size_t most_fronts : {size_t{40}, kMostFronts}) {
    CellMaker maker(3), again(3);
    for (int run = 0; run < 50; ++run) {
      EXPECT_EQ(PlanFor(maker.Make({6, 6, 4, 1}), most_fronts).order,
                PlanFor(again.Make({6, 6, 4, 1}), most_fronts).order);
    }
  }
}

TEST(WithNextPlacedTest, TheLastOfTheBestPlacesBehindACollective) {
  CellMaker maker(5);
  int moved = 0;
  for (int run = 0; run < 300; ++run) {
    const CellItems cell = maker.Make({4, 4, 2, 1});
    const CellPlayer player(cell);
    const Merge order = PlanFor(cell, 1).order;
    const Merge placed = WithNextPlaced(cell, order);
    const double seconds = player.SecondsOf(placed);
    moved += placed != order ? 1 : 0;
    Merge rest = order;
    rest.erase(std::find(rest.begin(), rest.end(), Queue::kNext));
    Merge others = placed;
    others.erase(std::find(others.begin(), others.end(), Queue::kNext));
    EXPECT_EQ(others, rest) << "run " << run;
    EXPECT_LE(seconds, player.SecondsOf(order)) << "run " << run;
    PerQueue<size_t> at = {};
    for (size_t place = 0; place < rest.size(); ++place) {
      if (place > 0) {
        const auto q = static_cast<size_t>(rest[place - 1]);
        const CellItem& before = cell.queues[q][at[q]++];
        if (cell.ops[static_cast<size_t>(before.end - 1)].lane == 0) continue;
      }
      Merge other = rest;
      other.insert(other.begin() + static_cast<std::ptrdiff_t>(place), Queue::kNext);
      EXPECT_LE(seconds, player.SecondsOf(other)) << "run " << run << " place " << place;
    }
  }
  EXPECT_GT(moved, 20);
}

// Two chains that compute for 1 and communicate for 1 hide each other's collectives.
TEST(EventPlanTest, TwoChainsHideEachOthersCollectives) {
  CellItems cell = {.lanes = 2, .ops = {}, .queues = {}};
  for (size_t q : {0, 1}) {
    for (int i = 0; i < 3; ++i) {
      const auto begin = static_cast<int>(cell.ops.size());
      cell.ops.push_back({.lane = 0, .seconds = 1});
      if (i > 0) cell.ops.back().after = {begin - 1};
      cell.ops.push_back({.lane = 1, .seconds = 1, .after = {begin}});
      cell.queues[q].push_back({.begin = begin, .end = begin + 2});
    }
  }
  // The lane communicates for 6, and the first computation has nothing that it could hide.
  EXPECT_EQ(LowerBound(cell), 7);
  EXPECT_EQ(PlanFor(cell).seconds, 7);
}

TEST(EventPlanTest, QueuesThatWaitForEachOtherAreRefused) {
  CellItems cell = {.lanes = 1, .ops = {{.seconds = 1}, {.seconds = 1}}, .queues = {}};
  cell.queues[0] = {{.begin = 0, .end = 1, .behind = {0, 1, 0, 0}}};
  cell.queues[1] = {{.begin = 1, .end = 2, .behind = {1, 0, 0, 0}}};
  EXPECT_EQ(EventPlan(cell).status().message(), "the queues of a cell wait for each other");
  EXPECT_EQ(BlockPlan(cell).status().message(), "no sequence of blocks plays the cell");
}

TEST(BlockPlanTest, TheShortestOfAllSequencesOfBlocks) {
  CellMaker maker(6);
  int narrow = 0;
  for (int run = 0; run < 150; ++run) {
    const CellItems cell = maker.Make({maker.Below(5), maker.Below(5), maker.Below(3), 0});
    double before = 0;
    for (int most_items : {1, 2, 3}) {
      const absl::StatusOr<CellPlan> blocks = BlockPlan(cell, most_items);
      ASSERT_TRUE(blocks.ok()) << blocks.status() << " in run " << run;
      EXPECT_EQ(blocks->seconds, EveryBlocks(cell, most_items).shortest())
          << "run " << run << ", blocks of up to " << most_items;
      narrow += before > blocks->seconds ? 1 : 0;
      before = blocks->seconds;
    }
  }
  EXPECT_GT(narrow, 5);  // the most items of a block decide
}

// What each class of computation and each kind of collective take from each other.
void AddContention(CellMaker* maker, CellItems* cell) {
  for (CellOp& op : cell->ops) op.kind = maker->Below(2);
  for (int computation : {0, 1}) {
    cell->together.emplace_back();
    for (int collective : {0, 1}) {
      cell->together.back().push_back(
          {.compute = 0.1 * maker->Below(6) * (1 + computation) / 2,
           .communication = 0.1 * maker->Below(6) * (1 + collective) / 2,
           .turn_seconds = 0.5 * maker->Below(4)});
    }
  }
}

TEST(BlockPlanTest, TheShortestOfAllSequencesOfBlocksThatContend) {
  CellMaker maker(7);
  int longer = 0, other = 0;
  for (int run = 0; run < 150; ++run) {
    CellItems cell = maker.Make({maker.Below(5), maker.Below(5), maker.Below(3), 0});
    const absl::StatusOr<CellPlan> alone = BlockPlan(cell, 3);
    AddContention(&maker, &cell);
    const absl::StatusOr<CellPlan> blocks = BlockPlan(cell, 3);
    ASSERT_TRUE(alone.ok() && blocks.ok()) << blocks.status() << " in run " << run;
    EXPECT_NEAR(blocks->seconds, EveryBlocks(cell, 3).shortest(), 1e-9) << "run " << run;
    EXPECT_GE(blocks->seconds, alone->seconds - 1e-9) << "run " << run;
    longer += blocks->seconds > alone->seconds + 1e-9 ? 1 : 0;
    other += blocks->order != alone->order ? 1 : 0;
  }
  EXPECT_GT(longer, 50);
  EXPECT_GT(other, 10);
}

// After a computation of 1, a collective of 3 under a computation of 4.
CellItems CollectiveUnderComputation() {
  CellItems cell = {.lanes = 2, .ops = {}, .queues = {}};
  cell.ops.push_back({.lane = 0, .seconds = 1});
  cell.ops.push_back({.lane = 1, .seconds = 3, .after = {0}, .kind = 1});
  cell.ops.push_back({.lane = 0, .seconds = 4, .kind = 1});
  cell.queues[0] = {{.begin = 0, .end = 2}};
  cell.queues[1] = {{.begin = 2, .end = 3, .behind = {1, 0, 0, 0}}};
  return cell;
}

// They share the rank until the collective has ended.
TEST(BlockPlanTest, BothSidesLoseWhileBothRun) {
  CellItems cell = CollectiveUnderComputation();
  EXPECT_EQ(BlockPlan(cell)->seconds, 1 + 4);
  const Contention of = {.compute = 0.25, .communication = 0.5};
  cell.together = {{{}, {}}, {{}, of}};
  // The computation takes 4 / 0.75, and half a second of the collective passes in each of these.
  EXPECT_NEAR(BlockPlan(cell)->seconds, 1 + 4 / 0.75 + (3 - 4 / 0.75 * 0.5), 1e-9);
  cell.together = {{{}, of}, {{}, {}}};  // of another class of computation
  EXPECT_EQ(BlockPlan(cell)->seconds, 1 + 4);
}

TEST(BlockPlanTest, ACollectiveBesideAComputationWaitsForItsTurn) {
  CellItems cell = CollectiveUnderComputation();
  const auto seconds = [&](double turn) {
    cell.together = {{{}, {}}, {{}, {.turn_seconds = turn}}};
    return BlockPlan(cell)->seconds;
  };
  EXPECT_EQ(seconds(0.5), 1 + 4);
  EXPECT_EQ(seconds(2), 1 + 2 + 3);
  EXPECT_EQ(seconds(5), 1 + 4 + 3);  // it has the core when nothing computes any more
}

TEST(BlockPlanTest, BarriersCostTimeAndTheOrderWithoutThemDoesNot) {
  CellMaker maker(4);
  int longer = 0;
  for (int run = 0; run < 300; ++run) {
    const CellItems cell =
        maker.Make({3 + maker.Below(5), 3 + maker.Below(5), maker.Below(4), maker.Below(2)});
    const absl::StatusOr<CellPlan> blocks = BlockPlan(cell);
    ASSERT_TRUE(blocks.ok()) << blocks.status() << " in run " << run;
    const double events = PlanFor(cell).seconds;
    const double without = CellPlayer(cell).SecondsOf(blocks->order);
    EXPECT_LE(events, without) << "run " << run;
    EXPECT_LE(without, blocks->seconds) << "run " << run;
    longer += events < blocks->seconds ? 1 : 0;
  }
  EXPECT_GT(longer, 20);
}

// In the example above, blocks are: f | f's collective under b | b's under f | ... | b's.
TEST(BlockPlanTest, ABlockBeginsWithTheCollectiveOfTheOneBefore) {
  CellItems cell = {.lanes = 2, .ops = {}, .queues = {}};
  for (size_t q : {0, 1}) {
    const auto begin = static_cast<int>(cell.ops.size());
    cell.ops.push_back({.lane = 0, .seconds = 2});
    cell.ops.push_back({.lane = 1, .seconds = 3, .after = {begin}});
    cell.queues[q].push_back({.begin = begin, .end = begin + 2});
  }
  EXPECT_EQ(BlockPlan(cell)->seconds, 2 + 3 + 3);
  EXPECT_EQ(EventPlan(cell)->seconds, 2 + 3 + 3);
  cell.ops[2].seconds = 4;  // is longer than the collective above it
  EXPECT_EQ(BlockPlan(cell)->seconds, 2 + 4 + 3);
}

}  // namespace
}  // namespace stretto
