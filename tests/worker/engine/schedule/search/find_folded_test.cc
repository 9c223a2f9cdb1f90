// SPDX-License-Identifier: Apache-2.0

// Found plans of the two cells of folded stages, which all ranks weave by one text.

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/schedule/search/costs.h"
#include "tests/worker/engine/schedule/search/every_merge.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/exec/backend_sim/timeline.h"
#include "worker/engine/layout/layout.h"
#include "worker/engine/memory/plan.h"
#include "worker/engine/schedule/reorder/expand_unit.h"
#include "worker/engine/schedule/search/event_plan.h"
#include "worker/engine/schedule/search/find_weave.h"
#include "worker/engine/schedule/search/woven_cell.h"

namespace stretto {
namespace {

Layout FoldedOver(int stages, int layers_of_chunk) {
  return InOrder({.pp_size = stages,
                  .slices = {2},
                  .micro_batches = stages + 2,
                  .layers = 2 * stages * layers_of_chunk},
                 "folded");
}

// Families, sequence parallelism, slices and what is recomputed.
std::vector<Layout> ManyFolded(int stages, int layers_of_chunk) {
  std::vector<Layout> layouts;
  for (Family family : EveryFamily()) {
    for (bool sequence_parallel : {false, true}) {
      for (Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
        for (const std::vector<int>& slices : {std::vector<int>{2}, {1, 1}}) {
          Layout layout = FoldedOver(stages, layers_of_chunk);
          layout.family = family;
          layout.sequence_parallel = sequence_parallel;
          layout.recompute = recompute;
          layout.slices = slices;
          layouts.push_back(layout);
        }
      }
    }
  }
  return layouts;
}

// A rank of each stage.
std::vector<RankPlan> PlansOf(const EngineSpec& spec) {
  std::vector<RankPlan> plans;
  for (int stage = 0; stage < spec.pp_size; ++stage)
    plans.push_back(PlanOf(spec, RankAt(spec, {.stage = stage, .replica = 0, .tp_rank = 0})));
  return plans;
}

std::vector<FoundWeave> Find(const std::vector<RankPlan>& plans, const CostModel& cost,
                             absl::string_view given = "", WeaveForm form = WeaveForm::kEvents) {
  std::vector<const StepProgram*> steps;
  for (const RankPlan& plan : plans) steps.push_back(&plan.step);
  const auto found = FindWeaves(steps, cost, given, form);
  EXPECT_TRUE(found.ok()) << found.status();
  return found.ok() ? *found : std::vector<FoundWeave>(2);
}

CostModel RandomCosts(const std::vector<RankPlan>& plans, std::mt19937* random) {
  CostModel cost;
  for (const RankPlan& plan : plans) AddRandomCosts(plan.step, random, &cost);
  return cost;
}

// The times of a cell on each stage, simulated alone.
std::vector<double> SimulatedCells(const std::vector<RankPlan>& plans, size_t cell,
                                   const CostModel& cost) {
  std::vector<double> seconds;
  for (const RankPlan& plan : plans) {
    const auto intervals =
        Simulate(ExpandUnit(plan.step, WovenUnits(plan.step).at(cell).unit), cost);
    EXPECT_TRUE(intervals.ok()) << intervals.status();
    seconds.push_back(static_cast<double>(SpanOf(*intervals).end) * 1e-9);
  }
  return seconds;
}

double Longest(const std::vector<double>& seconds) {
  return *std::max_element(seconds.begin(), seconds.end());
}

EngineSpec With(EngineSpec spec, const std::string& text) {
  spec.schedule.weave = text;
  return spec;
}

TEST(FindFoldedTest, EveryStagePlaysBothPlansInThePredictedTime) {
  std::mt19937 random(1);
  for (int stages : {1, 2, 3}) {
    for (const Layout& layout : ManyFolded(stages, 2)) {
      const EngineSpec spec = SpecOf(layout);
      const std::vector<RankPlan> given = PlansOf(spec);
      const CostModel cost = RandomCosts(given, &random);
      const std::vector<FoundWeave> found = Find(given, cost);
      ASSERT_EQ(found.size(), 2u);
      const std::vector<RankPlan> played = PlansOf(With(spec, PrintWeaves(found)));  // verified
      for (size_t cell : {0, 1}) {
        EXPECT_EQ(found[cell].plan.forward_chunk, static_cast<int>(cell));
        EXPECT_EQ(found[cell].plan.backward_chunk, 1 - static_cast<int>(cell));
        const std::vector<double> seconds = SimulatedCells(played, cell, cost);
        EXPECT_NEAR(Longest(seconds), found[cell].seconds, kRounding) << Describe(layout);
        EXPECT_EQ(Longest(seconds), seconds.front()) << Describe(layout);
        EXPECT_NEAR(Longest(SimulatedCells(given, cell, cost)), found[cell].given_seconds,
                    kRounding)
            << Describe(layout);
        EXPECT_LE(found[cell].lower_bound, found[cell].seconds + kRounding) << Describe(layout);
        EXPECT_LE(found[cell].seconds, found[cell].given_seconds + kRounding) << Describe(layout);
        EXPECT_TRUE(found[cell].given_fits) << Describe(layout);
      }
    }
  }
}

// What each lane does, in its order.
std::map<std::string, std::vector<std::string>> LanesOf(const Program& program) {
  std::map<std::string, std::vector<std::string>> lanes;
  for (const Op& op : program.ops) {
    lanes[program.lanes[op.lane].name].push_back(
        absl::StrCat(TagKey(op), " ", op.tag.micro_batch, " ", op.tag.layer, " ", op.tag.slice));
  }
  return lanes;
}

// Transfers have lanes of their own, so their place among computations does not count. Of several
// slices, a stage that sends plays the gradients of the last norm in another order.
TEST(FindFoldedTest, ThePrintedPlansOfTheFirstStageAreTheDefaultPlansOfEach) {
  for (const Layout& layout : ManyFolded(3, 2)) {
    if (layout.slices.size() > 1) continue;
    const EngineSpec spec = SpecOf(layout);
    const std::vector<RankPlan> none = PlansOf(spec);
    const std::string text = PrintWeaves(Find(none, {}), &FoundWeave::given_plan);
    const std::vector<RankPlan> printed = PlansOf(With(spec, text));
    for (size_t stage = 0; stage < none.size(); ++stage)
      EXPECT_EQ(LanesOf(printed[stage].program), LanesOf(none[stage].program))
          << Describe(layout) << " stage " << stage << "\n"
          << text;
  }
}

TEST(FindFoldedTest, RanksAgreeOnOneText) {
  std::mt19937 random(2);
  for (const Layout& layout : ManyFolded(2, 1)) {
    const EngineSpec spec = SpecOf(layout);
    const std::vector<RankPlan> given = PlansOf(spec);
    const std::string text = PrintWeaves(Find(given, RandomCosts(given, &random)));
    const absl::StatusOr<std::vector<WeavePlan>> plans = ParseWeavePlans(text);
    ASSERT_TRUE(plans.ok()) << plans.status();
    const int slices = static_cast<int>(layout.slices.size());
    EXPECT_EQ(CheckWeavePlans(*plans, {.chunks = 2, .layers = 1, .slices = slices}),
              absl::OkStatus());
    EXPECT_EQ(BuildPlans(With(spec, text)).status(), absl::OkStatus()) << Describe(layout);
  }
}

TEST(FindFoldedTest, ThePaceIsThatOfTheGivenPlanOfTheCell) {
  const std::vector<RankPlan> given = PlansOf(SpecOf(FoldedOver(2, 2)));
  std::mt19937 random(3);
  const CostModel cost = RandomCosts(given, &random);
  const std::vector<FoundWeave> found = Find(given, cost, "weave f1|b0 pace=0\n");
  EXPECT_EQ(found[0].plan.pace, 1);
  EXPECT_EQ(found[1].plan.pace, 0);
  EXPECT_EQ(found[0].plan, Find(given, cost)[0].plan);
}

// The first items of each queue of a cell.
CellItems FirstOf(CellItems cell, int most, int most_weights) {
  for (size_t q = 0; q < kQueues; ++q) {
    const auto size = static_cast<size_t>(q == 2 ? most_weights : most);
    cell.queues[q].resize(std::min(cell.queues[q].size(), size));
  }
  for (std::vector<CellItem>& items : cell.queues) {
    for (CellItem& item : items) {
      for (size_t q = 0; q < kQueues; ++q)
        item.behind[q] = std::min(item.behind[q], static_cast<int>(cell.queues[q].size()));
    }
  }
  return cell;
}

TEST(FindFoldedTest, PlansAreTheShortestOfAllMerges) {
  std::mt19937 random(4);
  int above_bound = 0;
  for (const Layout& layout : ManyFolded(2, 1)) {
    const std::vector<RankPlan> plans = PlansOf(SpecOf(layout));
    const CostModel cost = RandomCosts(plans, &random);
    for (const WovenUnit& unit : WovenUnits(plans.front().step)) {
      const auto woven = WovenCellOf(plans.front().step, unit, cost, 1);
      ASSERT_TRUE(woven.ok()) << woven.status();
      const CellItems cell = FirstOf(woven->cell, 7, 2);
      const absl::StatusOr<CellPlan> plan = EventPlan(cell);
      ASSERT_TRUE(plan.ok()) << plan.status();
      EXPECT_TRUE(plan->exact);
      EXPECT_NEAR(plan->seconds, EveryMerge(cell).shortest(), kRounding) << Describe(layout);
      above_bound += LowerBound(cell) < plan->seconds - kRounding ? 1 : 0;
    }
  }
  EXPECT_GT(above_bound, 10);
}

TEST(FindFoldedTest, BlocksTakeLongerThanEvents) {
  std::mt19937 random(5);
  for (const Layout& layout : ManyFolded(2, 1)) {
    if (layout.slices.size() > 1) continue;
    const std::vector<RankPlan> given = PlansOf(SpecOf(layout));
    const CostModel cost = RandomCosts(given, &random);
    const auto events = Find(given, cost), blocks = Find(given, cost, "", WeaveForm::kBlocks);
    for (size_t cell : {0, 1}) {
      EXPECT_TRUE(events[cell].exact) << Describe(layout);
      EXPECT_LE(events[cell].seconds, blocks[cell].seconds + kRounding) << Describe(layout);
    }
  }
}

// ---- steps

constexpr int kVocab = 512;  // layers are nearly all of the step

// Of all stages together.
double StepOf(const EngineSpec& spec, const std::vector<RankPlan>& plans, const CostModel& cost) {
  std::vector<SimulatedRank> ranks;
  for (const RankPlan& plan : plans) {
    ranks.push_back({.program = &plan.program, .cost = &cost, .copies = {}});
    for (Rank other : IdRange<Rank>(spec.world_size())) {
      const bool shard = PlaceOf(spec, other).stage == PlaceOf(spec, plan.program.rank).stage;
      if (shard && other != plan.program.rank)
        ranks.back().copies.push_back({other, GroupsOf(spec, other)});
    }
  }
  const auto intervals = Simulate(ranks);
  EXPECT_TRUE(intervals.ok()) << intervals.status();
  int64_t end = 0;
  for (const auto& of_rank : *intervals) end = std::max(end, SpanOf(of_rank).end);
  return static_cast<double>(end) * 1e-9;
}

// Forward through a layer is the difference that one more layer makes to what is kept.
double ActivationsOfLayer(Layout layout) {
  layout.schedule = "megatron_sync";
  layout.pipeline = kDefaultPipeline;
  layout.slices = {2};
  layout.pp_size = layout.chunks = layout.micro_batches = 1;
  const auto peak = [&](int layers) {
    layout.layers = layers;
    return static_cast<double>(*PeakLiveActivations(PlanOf(LargeSpec(layout, kVocab)).program));
  };
  return (peak(9) - peak(5)) / 4;
}

// Steps are shorter where cells are, and the pace keeps what the stages keep. Plans are judged by
// cells alone, so a step may be a little longer where a cell that is shorter sends later.
TEST(FindFoldedTest, StepsAreShorterAndStagesKeepAsManyChunks) {
  int shorter = 0;
  for (const auto& [stages, layers] : {std::pair{2, 2}, {2, 4}, {4, 2}}) {
    for (Family family : EveryFamily()) {
      for (bool sequence_parallel : {false, true}) {
        Layout layout = FoldedOver(stages, layers);
        layout.family = family;
        layout.sequence_parallel = sequence_parallel;
        layout.micro_batches = 3 * stages;
        const EngineSpec spec = LargeSpec(layout, kVocab);
        const std::vector<RankPlan> given = PlansOf(spec);
        const double of_layer = ActivationsOfLayer(layout);
        for (double gbps : {0.25, 0.5, 1.0}) {
          const CostModel cost = LargeCosts(gbps);
          const std::vector<RankPlan> found = PlansOf(With(spec, PrintWeaves(Find(given, cost))));
          const std::string where = absl::StrCat(Describe(layout), " at ", gbps, " Gbit/s");
          const double was = StepOf(spec, given, cost), is = StepOf(spec, found, cost);
          EXPECT_LE(is, 1.008 * was) << where;
          for (const RankPlan& plan : found) {
            const auto peak = static_cast<double>(*PeakLiveActivations(plan.program));
            EXPECT_LE(peak, (2 * stages + 1) * layers * of_layer) << where;
          }
          shorter += is < 0.98 * was ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(shorter, 15);
}

}  // namespace
}  // namespace stretto
