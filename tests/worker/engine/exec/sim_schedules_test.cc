// SPDX-License-Identifier: Apache-2.0

// Timelines of real schedules.

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/spec/schedules.h"
#include "tests/worker/engine/exec/intervals.h"
#include "worker/engine/exec/backend_sim/timeline.h"
#include "worker/engine/exec/ledger.h"
#include "worker/engine/layout/layout.h"
#include "worker/engine/schedule/plan.h"

namespace stretto {
namespace {

EngineSpec SmallSpec(const std::string& schedule, int slices, int splits) {
  EngineSpec spec;
  spec.model = {.layers = 3,
                .hidden = 64,
                .heads = 4,
                .ffn_hidden = 256,
                .sequence_length = 32,
                .vocab_size = 200};
  spec.schedule = {.name = schedule, .slices = EvenSlices(4, slices), .splits = splits};
  spec.tp_size = 2;
  spec.micro_batch_size = 4;
  spec.micro_batches = 2;
  return spec;
}

// The plans of every schedule, cut in two where it can be.
std::map<std::string, std::vector<RankPlan>> AllPlans() {
  std::map<std::string, std::vector<RankPlan>> plans;
  for (const std::string& name : ScheduleNames()) {
    for (const auto& [slices, splits] : {std::pair{2, 2}, {2, 1}, {1, 2}, {1, 1}}) {
      absl::StatusOr<std::vector<RankPlan>> built = BuildPlans(SmallSpec(name, slices, splits));
      if (!built.ok()) continue;
      plans[name] = *std::move(built);
      break;
    }
    EXPECT_TRUE(plans.contains(name)) << name;
  }
  return plans;
}

CostModel SmallMachine(double contention) {
  return {.machine = {1e9, 1e9},
          .interconnect = {.bytes_per_second = 2e8, .latency_seconds = 1e-6},
          .contention = {.compute = contention, .communication = contention / 2}};
}

TEST(SimSchedulesTest, OneRankStandsForAllEqualRanks) {
  const CostModel cost = SmallMachine(0.25);
  for (const auto& [name, plans] : AllPlans()) {
    const auto together = Simulate({{{&plans[0].program, &cost}, {&plans[1].program, &cost}}});
    const auto alone = Simulate(plans[0].program, cost);
    ASSERT_TRUE(together.ok() && alone.ok()) << name;
    EXPECT_EQ((*together)[0], *alone) << name;
    // Rank 0 alone squares the gradients of replicated parameters; before that they are equal.
    for (OpId op : plans[0].program.ops.ids()) {
      if (plans[0].program.ops[op].tag.phase != Phase::kForward) continue;
      EXPECT_EQ((*together)[1][op.position()], (*alone)[op.position()])
          << name << " operation " << op.value();
    }
  }
}

// A lane that is busy, or the other lanes that it waits for: somebody is always at work.
TEST(SimSchedulesTest, AStepIsNeverIdleAndItsLedgerIsItsSpan) {
  for (const auto& [name, plans] : AllPlans()) {
    const Program& program = plans[0].program;
    const auto intervals = Simulate(program, SmallMachine(0.25));
    ASSERT_TRUE(intervals.ok()) << name;
    const StepLedger ledger = ComputeLedger(program, *intervals, {}, SpanOf(*intervals));
    EXPECT_NEAR(ledger.seconds, static_cast<double>(SpanOf(*intervals).end) * 1e-9, 1e-12) << name;
    for (const LedgerEntry& entry : ledger.entries) {
      EXPECT_TRUE(entry.part != LedgerPart::kIdle || entry.seconds < 1e-7) << name;
    }
  }
}

TEST(SimSchedulesTest, TheSynchronousScheduleHidesNothing) {
  const auto plan = BuildPlan(SmallSpec("megatron_sync", 1, 1), 0);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const CostModel cost = SmallMachine(0);
  const auto intervals = Simulate(plan->program, cost);
  ASSERT_TRUE(intervals.ok());
  double sum = 0;
  for (const Op& op : plan->program.ops) sum += cost.Alone(plan->program, op);
  EXPECT_NEAR(static_cast<double>(SpanOf(*intervals).end) * 1e-9, sum, 1e-9);
}

// The sums over replicas begin as soon as backward has finished a layer, not behind all of it.
TEST(SimSchedulesTest, GradientsAreReducedUnderBackward) {
  for (const char* schedule : {"megatron_async", "domino_row"}) {
    EngineSpec spec = SmallSpec(schedule, schedule == std::string("domino_row") ? 2 : 1, 1);
    spec.tp_size = 1;
    spec.dp_size = 2;
    const auto plan = BuildPlan(spec, 0);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const Program& program = plan->program;
    const auto intervals = Simulate(program, SmallMachine(0));
    ASSERT_TRUE(intervals.ok()) << intervals.status();
    int64_t backward_end = 0;
    std::map<std::string, Interval> reductions;
    for (OpId id : program.ops.ids()) {
      const Interval at = (*intervals)[id.position()];
      const Op& op = program.ops[id];
      if (op.tag.phase == Phase::kBackward) backward_end = std::max(backward_end, at.end);
      if (op.group == FindGroup(program.groups, kDpGroupName)) reductions[op.tag.name] = at;
    }
    // Halves of layers, embeddings, the final norm.
    ASSERT_EQ(reductions.size(), 6 + 4u) << schedule;
    std::vector<std::string> halves;
    for (int layer = 2; layer >= 0; --layer) {
      for (const char* half : {"mlp", "attention"})
        halves.push_back(absl::StrCat("layers.", layer, ".", half));
    }
    for (size_t half = 0; half + 1 < halves.size(); ++half) {
      EXPECT_LT(reductions.at(halves[half]).begin, backward_end) << schedule;
      EXPECT_LT(reductions.at(halves[half]).end, reductions.at(halves[half + 1]).end) << schedule;
    }
    EXPECT_GE(reductions.at("embedding.token.weight").begin, reductions.at(halves.back()).end);
  }
}

}  // namespace
}  // namespace stretto
