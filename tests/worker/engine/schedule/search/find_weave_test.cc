// SPDX-License-Identifier: Apache-2.0

// Found plans in the steps of helix, against the simulator.

#include "worker/engine/schedule/search/find_weave.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/schedule/search/costs.h"
#include "tests/worker/engine/schedule/search/helices.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/exec/backend_sim/timeline.h"
#include "worker/engine/schedule/reorder/expand_unit.h"
#include "worker/engine/schedule/search/block_plan.h"
#include "worker/engine/schedule/search/cell_plan.h"
#include "worker/engine/schedule/search/event_plan.h"
#include "worker/engine/schedule/search/judge.h"
#include "worker/engine/schedule/search/woven_cell.h"
#include "worker/engine/schedule/units.h"

namespace stretto {
namespace {

CostModel RandomCosts(const StepProgram& step, std::mt19937* random) {
  CostModel cost;
  AddRandomCosts(step, random, &cost);
  return cost;
}

// The time of a woven step's cell, simulated alone.
double SimulatedCell(const StepProgram& step, const CostModel& cost) {
  const auto intervals = Simulate(ExpandUnit(step, WovenUnits(step).at(0).unit), cost);
  EXPECT_TRUE(intervals.ok()) << intervals.status();
  return intervals.ok() ? static_cast<double>(SpanOf(*intervals).end) * 1e-9 : 0;
}

StepProgram Woven(EngineSpec spec, const WeavePlan& plan) {
  spec.schedule.weave = PrintWeavePlan(plan);
  return PlanOf(spec).step;  // verified
}

absl::StatusOr<WovenCell> CellOf(const StepProgram& step, const CostModel& cost) {
  return WovenCellOf(step, WovenUnits(step).at(0), cost, 1);
}

absl::StatusOr<JudgedTimes> JudgedOrder(const WovenCell& cell, const CostModel& cost,
                                        const Merge& order) {
  return Judge({cell.played}, cost, PlanOfMerge(cell, 1, order));
}

TEST(FindWeaveTest, HelixPlaysWhatWasFoundInThePredictedTime) {
  std::mt19937 random(1);
  for (const Layout& layout : ManyHelices(3)) {
    const EngineSpec spec = SpecOf(layout);
    const StepProgram given = PlanOf(spec).step;
    const CostModel cost = RandomCosts(given, &random);
    const int pace = static_cast<int>(random() % 3);
    const FoundWeave found = Find(given, cost, pace);
    EXPECT_NEAR(SimulatedCell(Woven(spec, found.plan), cost), found.seconds, kRounding)
        << Describe(layout) << " pace " << pace;
    EXPECT_EQ(found.plan.pace, std::min(pace, kMostFoundPace));
    EXPECT_EQ(found.given_plan.pace, pace);
    EXPECT_LE(found.lower_bound, found.seconds + kRounding) << Describe(layout);
    EXPECT_NEAR(SimulatedCell(given, cost), found.given_seconds, kRounding) << Describe(layout);
    EXPECT_TRUE(found.given_fits || pace == 0) << Describe(layout);
    if (!found.given_fits) continue;
    EXPECT_LE(found.seconds, found.given_seconds + kRounding) << Describe(layout);
  }
}

// Any order of the words is a plan: with it, the same orders are searched.
TEST(FindWeaveTest, AStepInAnyOrderIsSearchedAlike) {
  std::mt19937 random(7);
  for (const Layout& layout : ManyHelices(2)) {
    const EngineSpec spec = SpecOf(layout);
    const StepProgram usual = PlanOf(spec).step;
    const CostModel cost = RandomCosts(usual, &random);
    const FoundWeave expected = Find(usual, cost, 1);
    for (int run = 0; run < 3; ++run) {
      WeavePlan plan = expected.given_plan;
      std::shuffle(plan.lines.begin(), plan.lines.end(), random);
      const StepProgram step = Woven(spec, plan);
      const FoundWeave found = Find(step, cost, 1);
      EXPECT_NEAR(SimulatedCell(step, cost), found.given_seconds, kRounding) << Describe(layout);
      EXPECT_NEAR(found.lower_bound, expected.lower_bound, kRounding) << Describe(layout);
      EXPECT_LE(found.seconds, expected.seconds * (1 + kWorth) + kRounding) << Describe(layout);
      EXPECT_LE(expected.seconds, found.seconds * (1 + kWorth) + kRounding) << Describe(layout);
      EXPECT_NEAR(SimulatedCell(Woven(spec, found.given_plan), cost), found.given_seconds,
                  kRounding)
          << Describe(layout);
    }
  }
}

TEST(BlockPlanTest, ACellOfTooManyStatesIsRefused) {
  const CellItems cell = {.ops = {{}},
                          .queues = {std::vector<CellItem>(1000, {0, 1}),
                                     std::vector<CellItem>(1000, {0, 1}),
                                     std::vector<CellItem>(1000, {0, 1}),
                                     {}}};
  EXPECT_EQ(BlockPlan(cell).status(),
            absl::InvalidArgumentError("blocks of a cell: found 4012012004 states, expected at "
                                       "most 16777216, which fewer layers or slices have"));
}

// The lower bound has no burst, so the times that are compared with it must not have one.
TEST(FindWeaveTest, TimesHaveNoBurstOfTheLink) {
  const Layout layout = {.schedule = "helix", .slices = {2}, .micro_batches = 3, .layers = 2};
  const StepProgram given = PlanOf(LargeSpec(layout)).step;
  for (double gbps : {0.125, 0.25, 0.5, 1.0}) {
    CostModel cost = LargeCosts(gbps);
    const FoundWeave steady = Find(given, cost, 1);
    cost.interconnect.burst_bytes = 1e9;
    const FoundWeave found = Find(given, cost, 1);
    EXPECT_LE(found.lower_bound, found.seconds + kRounding) << gbps;
    EXPECT_EQ(found.seconds, steady.seconds) << gbps;
    EXPECT_EQ(found.given_seconds, steady.given_seconds) << gbps;
  }
}

// Blocks that are given are timed and printed with their barriers. Returns what is found besides.
FoundWeave ExpectGivenBlocks(const EngineSpec& spec, const CostModel& cost,
                             const FoundWeave& blocks) {
  const StepProgram step = Woven(spec, blocks.plan);
  const auto found = FindWeaves({&step}, cost, PrintWeavePlan(blocks.plan));
  EXPECT_TRUE(found.ok()) << found.status();
  if (!found.ok()) return {};
  EXPECT_EQ(found->at(0).given_plan, blocks.plan);
  EXPECT_NEAR(found->at(0).given_seconds, blocks.seconds, kRounding);
  return found->at(0);
}

TEST(FindWeaveTest, BarriersMayMakeACellShorterWhereSidesContend) {
  const EngineSpec spec =
      LargeSpec({.schedule = "helix", .slices = {1}, .micro_batches = 3, .layers = 1});
  const StepProgram step = PlanOf(spec).step;
  int shorter = 0;
  for (double gbps : {0.25, 0.5, 1.0, 2.0}) {
    CostModel cost = LargeCosts(gbps);
    cost.contention = {.compute = 0.6, .communication = 0.6};
    const FoundWeave blocks = Find(step, cost, 1, WeaveForm::kBlocks);
    const FoundWeave found = ExpectGivenBlocks(spec, cost, blocks);
    shorter += blocks.seconds < found.seconds;
  }
  EXPECT_GT(shorter, 0);
}

TEST(FindWeaveTest, BlocksTakeLongerThanEvents) {
  std::mt19937 random(2);
  for (const Layout& layout : ManyHelices(1)) {
    if (layout.slices.size() > 1) continue;
    const EngineSpec spec = SpecOf(layout);
    const StepProgram given = PlanOf(spec).step;
    const CostModel cost = RandomCosts(given, &random);
    const FoundWeave events = Find(given, cost, 1),
                     blocks = Find(given, cost, 1, WeaveForm::kBlocks);
    EXPECT_TRUE(EventPlan(CellOf(given, cost)->cell)->exact) << Describe(layout);
    EXPECT_LE(events.seconds, blocks.seconds + kRounding) << Describe(layout);
    EXPECT_NEAR(SimulatedCell(Woven(spec, blocks.plan), cost), blocks.seconds, kRounding)
        << Describe(layout);
    const auto judged = Judge({CellOf(given, cost)->played}, cost, blocks.plan);
    EXPECT_NEAR(judged->front(), blocks.seconds, kRounding) << Describe(layout);
    ExpectGivenBlocks(spec, cost, blocks);
    WeavePlan without = blocks.plan;
    std::erase_if(without.lines, [](const WeaveLine& line) { return line.is_barrier(); });
    EXPECT_LE(SimulatedCell(Woven(spec, without), cost), blocks.seconds + kRounding)
        << Describe(layout);
  }
}

// The search of blocks is exact up to kMostBlockItems; no longer ones are of use. By Gbit/s,
// because all of them together take more than a minute. Each layout has one of these; in full,
// every one.
#ifdef STRETTO_FULL_MATRIX
constexpr bool kEveryRate = true;
#else
constexpr bool kEveryRate = false;
#endif
constexpr double kRates[] = {0.25, 0.5, 1.0, 2.0};
class LongerBlocksTest : public ::testing::TestWithParam<double> {};

TEST_P(LongerBlocksTest, AreNoShorter) {
  const std::vector<Layout> layouts = ManyHelices(1);
  for (size_t i = 0; i < layouts.size(); ++i) {
    const Layout& layout = layouts[i];
    if (kRates[(i + i / 4) % 4] != GetParam() && !kEveryRate) continue;
    const absl::StatusOr<RankPlan> given = DraftPlan(LargeSpec(layout), 0);
    ASSERT_TRUE(given.ok()) << given.status();
    const absl::StatusOr<WovenCell> woven = CellOf(given->step, LargeCosts(GetParam()));
    ASSERT_TRUE(woven.ok()) << woven.status();
    const absl::StatusOr<CellPlan> blocks = BlockPlan(woven->cell),
                                   longer = BlockPlan(woven->cell, 2 * kMostBlockItems);
    ASSERT_TRUE(blocks.ok() && longer.ok()) << blocks.status() << longer.status();
    EXPECT_NEAR(blocks->seconds, longer->seconds, kRounding) << Describe(layout);
  }
}

INSTANTIATE_TEST_SUITE_P(Rates, LongerBlocksTest, ::testing::ValuesIn(kRates),
                         [](const auto& info) {
                           return absl::StrCat(std::lround(1000 * info.param), "MbitPerS");
                         });

// The costs of a cell's operations times what `factor` returns, which must be equal for operations
// of one tag and kind.
template <class Factor>
CostModel Scaled(const WovenCell& woven, CostModel cost, const Factor& factor) {
  for (size_t i = 0; i < woven.ops.size(); ++i) {
    const Op& op = woven.played.program.ops[woven.ops[i]];
    cost.table.Set(TagKey(op), woven.cell.ops[i].seconds * factor(op));
  }
  return cost;
}

TEST(JudgeTest, TheTimeOfAnOrderIsThatOfHelixInTheSimulator) {
  std::mt19937 random(3);
  for (const Layout& layout : ManyHelices(3)) {
    const StepProgram given = PlanOf(SpecOf(layout)).step;
    const CostModel cost = WithContention(RandomCosts(given, &random), &random);
    const absl::StatusOr<WovenCell> woven = CellOf(given, cost);
    ASSERT_TRUE(woven.ok()) << woven.status();
    const absl::StatusOr<JudgedTimes> judged = JudgedOrder(*woven, cost, woven->given);
    ASSERT_TRUE(judged.ok()) << judged.status();
    EXPECT_NEAR(judged->front(), SimulatedCell(given, cost), kRounding) << Describe(layout);
    EXPECT_GT(judged->front(), CellPlayer(woven->cell).SecondsOf(woven->given) + kRounding);
    for (size_t i : {1, 2}) {
      const double computation = i == 1 ? 1 + kDoubt : 1 - kDoubt;
      const CostModel off = Scaled(*woven, cost, [&](const Op& op) {
        return IsCollective(op.kind) ? 2 - computation : computation;
      });
      EXPECT_NEAR((*judged)[i], SimulatedCell(given, off), kRounding) << Describe(layout);
    }
  }
}

// The shorter side runs under the other all the time, and the longer one for as long as that.
TEST(JudgeTest, OperationsAreSlowedDownByWhatTheyLoseUnderTheOtherSide) {
  const StepProgram given = PlanOf(SpecOf(ManyHelices(1).front())).step;
  std::mt19937 random(4);
  CostModel cost = RandomCosts(given, &random);
  const absl::StatusOr<WovenCell> woven = CellOf(given, cost);
  ASSERT_TRUE(woven.ok()) << woven.status();
  double computes = 0, communicates = 0;
  for (const CellOp& op : woven->cell.ops) (op.lane == 0 ? computes : communicates) += op.seconds;
  ASSERT_GT(computes, communicates);
  const CellItems none = SlowedDown(*woven, cost);
  cost.contention = {.compute = 0.5, .communication = 0.2, .turn_seconds = 0.01};
  const CellItems slow = SlowedDown(*woven, cost);
  for (size_t i = 0; i < woven->ops.size(); ++i) {
    const CellOp& op = woven->cell.ops[i];
    EXPECT_EQ(none.ops[i].seconds, op.seconds);
    const double rate = op.lane == 0 ? 1 - 0.5 * communicates / computes : 0.8;
    const double turn = op.lane == 0 ? 0 : 0.01;
    EXPECT_NEAR(slow.ops[i].seconds, op.seconds / rate + turn, kRounding);
  }
}

TEST(JudgeTest, TheLeastRegretWinsAndTheFirstOfEqualOnes) {
  // The second is the shortest at the costs given, and a tenth longer than the first elsewhere.
  EXPECT_EQ(LeastRegret({{1.02, 1, 1}, {1, 1.1, 1}}, 2), 0u);
  EXPECT_EQ(LeastRegret({{1.02, 1, 1}, {1, 1.01, 1}}, 2), 1u);
  EXPECT_EQ(LeastRegret({{1.02, 1, 1}, {1, 1.1, 1}}, 1.01), 1u);
  EXPECT_EQ(LeastRegret({{1.0005, 1, 1}, {1, 1, 1}}, 2), 0u);
  EXPECT_EQ(LeastRegret({{1.005, 1, 1}, {1, 1, 1}}, 2), 1u);
}

// With contention the search knows the order only roughly; the simulator decides.
TEST(FindWeaveTest, TheSimulatorPicksThePlanUnderContention) {
  std::mt19937 random(5);
  int shorter = 0;
  for (const Layout& layout : ManyHelices(3)) {
    const EngineSpec spec = SpecOf(layout);
    const StepProgram given = PlanOf(spec).step;
    const CostModel alone = RandomCosts(given, &random);
    const CostModel cost = WithContention(alone, &random);
    const FoundWeave found = Find(given, cost, 1);
    const double seconds = SimulatedCell(Woven(spec, found.plan), cost);
    const double unaware = SimulatedCell(Woven(spec, Find(given, alone, 1).plan), cost);
    EXPECT_LE(seconds, SimulatedCell(given, cost) + kRounding) << Describe(layout);
    EXPECT_FALSE(found.exact);
    shorter += seconds < unaware - kRounding ? 1 : 0;
  }
  EXPECT_GT(shorter, 5);
}

// Each operation takes up to a tenth more or less than its cost says, or all of one side a tenth
// more and all of the other a tenth less, which changes the balance most.
CostModel Off(const WovenCell& woven, const CostModel& cost, int run, std::mt19937* random) {
  std::map<std::string, double> factors;
  return Scaled(woven, cost, [&](const Op& op) {
    if (run < 2) return IsCollective(op.kind) == (run == 0) ? 0.9 : 1.1;
    const double factor = 0.9 + 0.2 * static_cast<double>((*random)() % 1001) * 1e-3;
    return factors.try_emplace(TagKey(op), factor).first->second;
  });
}

// The candidates are the given order and the shortest without and with contention. The most over
// many more of them is in docs/design/0037-weave-search.md.
TEST(FindWeaveTest, CostsThatAreOffByATenthCostThreePercent) {
  std::mt19937 random(6);
  for (const Layout& layout : ManyHelices(2)) {
    const EngineSpec spec = LargeSpec(layout);
    const absl::StatusOr<RankPlan> given = DraftPlan(spec, 0);
    ASSERT_TRUE(given.ok()) << given.status();
    const double contention = random() % 2 == 0 ? 0.0 : 0.3;
    CostModel cost = LargeCosts(random() % 2 == 0 ? 0.25 : 0.5);
    cost.contention = {.compute = contention, .communication = contention / 3};
    const absl::StatusOr<WovenCell> woven = CellOf(given->step, cost);
    ASSERT_TRUE(woven.ok()) << woven.status();
    const FoundWeave found = Find(given->step, cost, 1);
    const size_t fronts = contention > 0 ? kMostFronts / 2 : kMostFronts;
    std::vector<Merge> candidates = {woven->given, WithNextPlaced(woven->cell, woven->given)};
    for (const CellItems& cell : {woven->cell, SlowedDown(*woven, cost)})
      candidates.push_back(EventPlan(cell, fronts, woven->given)->order);
    for (int run = 0; run < 4; ++run) {
      const CostModel off = Off(*woven, cost, run, &random);
      const absl::StatusOr<WovenCell> is = CellOf(given->step, off);
      ASSERT_TRUE(is.ok()) << is.status();
      double least = std::numeric_limits<double>::infinity(), chosen = 0;
      for (const Merge& order : candidates) {
        const double seconds = JudgedOrder(*is, off, order)->front();
        least = std::min(least, seconds);
        if (PlanOfMerge(*woven, 1, order) == found.plan) chosen = seconds;
      }
      EXPECT_GT(chosen, 0) << "the plan is no candidate: " << Describe(layout);
      EXPECT_LE(chosen, 1.03 * least) << Describe(layout) << " run " << run;
    }
  }
}

// What the first and the last layer leave unpaired counts for more in fewer layers. With 2 and 8
// layers the search is exact where it is furthest above the bound, so the bound is loose there.
struct Closeness {
  int layers;
  double gpt, llama;  // found plans are at most this share above the lower bound
};

class FindWeaveInLayersTest : public testing::TestWithParam<Closeness> {};

TEST_P(FindWeaveInLayersTest, CloseToTheLowerBound) {
  const auto [layers, gpt, llama] = GetParam();
  for (const Layout& layout : ManyHelices(layers)) {
    if (layout.recompute == Recompute::kFull) continue;
    const bool hardest = layout.sequence_parallel && layout.slices.size() == 1 &&
                         layout.recompute == Recompute::kSelective;
    if (layers > 24 && !hardest) continue;  // time
    const absl::StatusOr<RankPlan> given = DraftPlan(LargeSpec(layout), 0);
    ASSERT_TRUE(given.ok()) << given.status();
    for (double gbps : {0.25, 0.5, 1.0, 2.0}) {
      const FoundWeave found = Find(given->step, LargeCosts(gbps), 1);
      const double above = layout.family == Family::kGpt ? gpt : llama;
      EXPECT_LE(found.seconds, (1 + above) * found.lower_bound)
          << Describe(layout) << " at " << gbps << " Gbit/s";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, FindWeaveInLayersTest,
                         testing::Values(Closeness{2, 0.046, 0.064}, Closeness{8, 0.016, 0.037},
                                         Closeness{24, 0.011, 0.02}, Closeness{96, 0.005, 0.0135}),
                         [](const auto& info) { return std::to_string(info.param.layers); });

TEST(FindWeaveTest, AStepWithoutACellIsRefused) {
  const StepProgram step = PlanOf(Domino({2, 2})).step;
  const absl::Status status = FindWeaves({&step}, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "found no cell of two passes, expected the step of a schedule that weaves");
}

}  // namespace
}  // namespace stretto
