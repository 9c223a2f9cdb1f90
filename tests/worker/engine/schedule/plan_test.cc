// SPDX-License-Identifier: Apache-2.0

// What every schedule's plan promises.

#include "worker/engine/schedule/plan.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/delete_waits.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/program/text.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Variant kVariants[] = {Variant::kSchedule, Variant::kSerialOracle, Variant::kComputeOnly,
                                 Variant::kCommunicationOnly, Variant::kEvaluation};

void ExpectPlans(const Layout& layout) {
  for (Variant variant : kVariants) {
    const auto plans = BuildPlans(SpecOf(layout), variant);
    EXPECT_TRUE(plans.ok()) << Describe(layout) << ", variant " << static_cast<int>(variant) << ": "
                            << plans.status();
  }
}

TEST(PlanTest, AllRanksOfEveryScheduleVerifyTogether) {
  for (const Layout& layout : EverySchedule()) ExpectPlans(layout);
}

TEST(PlanTest, AllRanksOfEveryShapeVerifyTogether) {
  for (const Layout& layout : ManyLayouts()) ExpectPlans(layout);
  for (Layout layout :
       {Domino({2, 1, 1}, 2), LayoutOf("domino_inter"), LayoutOf("domino_hybrid")}) {
    layout.tp_size = 4;
    layout.dtype = DType::kBF16;
    layout.dropout = 0.1;
    layout.sequence_parallel = true;
    layout.recompute = Recompute::kFull;
    ExpectPlans(layout);
    layout.merge_wgrads = 1;
    ExpectPlans(layout);
    layout.micro_batches = 4;
    layout.merge_wgrads = 2;
    ExpectPlans(layout);
  }
}

// Every schedule, with weight gradients merged over two of four micro-batches.
std::vector<Layout> EveryMergedSchedule() {
  std::vector<Layout> layouts = EverySchedule(4);
  std::erase_if(layouts, [](const Layout& of) { return FindSchedule(of.schedule)->weaves; });
  for (Layout& layout : layouts) layout.merge_wgrads = 2;
  return layouts;
}

TEST(PlanTest, AllRanksOfEveryMergedScheduleVerifyTogether) {
  for (const Layout& layout : EveryMergedSchedule()) ExpectPlans(layout);
}

TEST(PlanTest, ArenasAloneAreThoseOfThePlan) {
  std::vector<Layout> layouts = ManyLayouts();
  for (const Layout& layout : EveryMergedSchedule()) layouts.push_back(layout);
  for (const Layout& layout : layouts) {
    for (Variant variant : kVariants) {
      const auto arenas = PlanArenas(SpecOf(layout), 0, variant);
      ASSERT_TRUE(arenas.ok()) << arenas.status();
      EXPECT_EQ(*arenas, PlanOf(layout, 0, variant).arenas) << Describe(layout);
    }
  }
}

TEST(PlanTest, EveryWaitIsNeededOrRedundant) {
  std::vector<Layout> layouts = EverySchedule();
  for (const char* schedule : {"domino_row", "domino_hybrid", "nanotron"}) {
    layouts.push_back(LayoutOf(schedule));
    layouts.back().micro_batches = 4;
    layouts.back().merge_wgrads = 2;
  }
  for (Layout layout : layouts) {
    // It waits to keep compute and communication apart, whatever their data.
    if (layout.schedule == "megatron_sync") continue;
    layout.layers = 1;
    for (Variant variant : {Variant::kSchedule, Variant::kEvaluation}) {
      const RankPlan plan = PlanOf(layout, 1, variant);
      SCOPED_TRACE(Describe(layout));
      EXPECT_GT(ExpectEveryWaitNeededOrRedundant(plan.program, plan.arenas).needed, 0);
    }
  }
}

// Kind, tag, attributes and operands of each operation, but neither its place nor which copy of a
// buffer it uses.
std::multiset<std::string> OperationsOf(const Program& program) {
  std::multiset<std::string> operations;
  for (const Op& op : program.ops) {
    std::string line = std::string(InfoOf(op.kind).name) + " " + PrintTag(op.tag);
    for (int64_t attribute : op.attributes) line += " " + std::to_string(attribute);
    for (const BufferList* ids : {&op.in, &op.out}) {
      for (BufferId id : *ids) {
        const std::string& name = program.buffers[id].name;
        line += " " + name.substr(0, name.find('#'));
      }
    }
    operations.insert(line);
  }
  return operations;
}

// A schedule neither adds, removes nor changes an operation of the oracle.
TEST(PlanTest, EveryScheduleIsAPermutationOfItsOracle) {
  std::vector<Layout> layouts = EverySchedule();
  layouts.push_back(Domino({2, 1}, 3));
  layouts.back().defer_wgrads = 3;
  layouts.back().merge_wgrads = 1;
  for (const Layout& layout : EveryMergedSchedule()) layouts.push_back(layout);
  for (const Layout& layout : layouts) {
    const std::multiset<std::string> ours = OperationsOf(PlanOf(layout).program);
    const std::multiset<std::string> oracles =
        OperationsOf(PlanOf(layout, 0, Variant::kSerialOracle).program);
    std::vector<std::string> differences;
    std::set_symmetric_difference(ours.begin(), ours.end(), oracles.begin(), oracles.end(),
                                  std::back_inserter(differences));
    EXPECT_THAT(differences, IsEmpty()) << Describe(layout);
  }
}

// So that it can work in the memory of a step's weights and activations.
TEST(PlanTest, AnEvaluationIsTheForwardPassOfItsScheduleOnTheSameWeights) {
  std::vector<Layout> layouts = EverySchedule(1);
  for (const Layout& layout : EverySchedule(4)) layouts.push_back(layout);
  for (Layout& layout : layouts) {
    SCOPED_TRACE(Describe(layout));
    const RankPlan step = PlanOf(layout, 1);
    EngineSpec spec = SpecOf(layout);
    spec.model.dropout = 0.1;  // which an evaluation leaves out
    const RankPlan evaluation = PlanOf(spec, 1, Variant::kEvaluation);
    Program forward = step.program;
    std::erase_if(forward.ops, [](const Op& op) { return op.tag.phase != Phase::kForward; });
    EXPECT_EQ(OperationsOf(evaluation.program), OperationsOf(forward));
    for (size_t i = 0; i < step.buffers.weight.size(); ++i) {
      const auto place = [&](const RankPlan& plan) {
        const BufferId id = BufferMap(plan.step).Find(plan.buffers.weight[i], -1);
        const Buffer& buffer = plan.program.buffers[id];
        return std::tuple(buffer.name, buffer.arena, buffer.offset, buffer.bytes());
      };
      EXPECT_EQ(place(evaluation), place(step));
    }
    const auto bytes = [](const RankPlan& plan, ArenaClass arena) { return plan.arenas[arena]; };
    EXPECT_EQ(bytes(evaluation, ArenaClass::kParameter), bytes(step, ArenaClass::kParameter));
    EXPECT_EQ(bytes(evaluation, ArenaClass::kGradient), 0);
    EXPECT_EQ(bytes(evaluation, ArenaClass::kOptimizer), 0);
    EXPECT_LT(bytes(evaluation, ArenaClass::kActivation), bytes(step, ArenaClass::kActivation));
  }
}

TEST(PlanTest, TheOracleRunsOnOneLaneInCanonicalOrder) {
  for (const std::string& name : ScheduleNames()) {
    const Program program = PlanOf(LayoutOf(name), 0, Variant::kSerialOracle).program;
    EXPECT_EQ(program.lanes.size(), 1u);
    for (const Op& op : program.ops) EXPECT_TRUE(op.waits.empty());
  }
  // That of the row split is the same for every schedule of two slices.
  EXPECT_EQ(Print(PlanOf(LayoutOf("nanotron"), 0, Variant::kSerialOracle).program),
            Print(PlanOf(LayoutOf("domino_row"), 0, Variant::kSerialOracle).program));
}

// Contributions to one gradient come in (micro-batch, slice) order, whatever the schedule.
void ExpectOrderedGradients(const Layout& layout) {
  const Program program = PlanOf(layout).program;
  std::map<BufferId, std::pair<int, int>> last;  // gradient -> (micro-batch, slice)
  for (const Op& op : program.ops) {
    if (InfoOf(op.kind).role != OperationRole::kWeightGradient) continue;
    for (BufferId id : op.out) {
      const std::pair<int, int> now{op.tag.micro_batch, op.tag.slice};
      const auto it = last.find(id);
      // A tied embedding gets the head's contributions of a micro-batch before the embedding's.
      const bool tied = program.buffers[id].name == "embedding.token.weight.grad";
      const bool turns = tied && op.kind == OpKind::kEmbedGrad && now.second == 0;
      EXPECT_TRUE(it == last.end() || it->second < now || (turns && it->second.first == now.first))
          << Describe(layout) << ": " << PrintTag(op.tag);
      last[id] = now;
    }
  }
  EXPECT_FALSE(last.empty());
}

TEST(PlanTest, WeightGradientsAccumulateInMicroBatchAndSliceOrder) {
  for (const Layout& layout : EverySchedule(3)) ExpectOrderedGradients(layout);
  for (const Layout& layout : EveryMergedSchedule()) ExpectOrderedGradients(layout);
  for (Layout layout : {Domino({2, 1, 1}, 4), LayoutOf("domino_hybrid")}) {
    layout.micro_batches = 4;
    for (int defer : {0, 1, 4}) {
      layout.defer_wgrads = defer;
      for (int merged : {0, 1, 2, 4}) {
        layout.merge_wgrads = merged;
        ExpectOrderedGradients(layout);
      }
    }
  }
}

TEST(PlanTest, UnequalSlicesTakeTheirShareOfRows) {
  const RankPlan plan = PlanOf(Domino({1, 3}));
  std::vector<int64_t> rows;
  for (const Op& op : plan.program.ops) {
    if (op.kind != OpKind::kAttention || op.tag.layer != 0) continue;
    rows.push_back(plan.program.buffers[op.in[0]].shape[0]);
  }
  EXPECT_THAT(rows, ElementsAre(4, 12));
}

TEST(PlanTest, OneRankHasNothingToHide) {
  for (Layout layout : EverySchedule()) {
    layout.tp_size = 1;
    const Program program = PlanOf(layout).program;
    EXPECT_EQ(program.lanes.size(), 1u);
    for (const Op& op : program.ops) EXPECT_FALSE(IsCollective(op.kind)) << Describe(layout);
  }
}

TEST(PlanTest, TheSameSpecGivesTheSameProgram) {
  EXPECT_EQ(Print(PlanOf(Domino({2, 1}, 2)).program), Print(PlanOf(Domino({2, 1}, 2)).program));
}

}  // namespace
}  // namespace stretto
