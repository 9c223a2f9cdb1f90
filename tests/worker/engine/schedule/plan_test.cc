// What every schedule's plan promises, and which specs are refused.

#include "worker/engine/schedule/plan.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

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
                                 Variant::kCommunicationOnly};

void ExpectPlans(const Shape& shape) {
  for (Variant variant : kVariants) {
    const auto plans = BuildPlans(SpecOf(shape), variant);
    EXPECT_TRUE(plans.ok()) << Describe(shape) << ", variant " << static_cast<int>(variant) << ": "
                            << plans.status();
  }
}

TEST(PlanTest, AllRanksOfEveryScheduleVerifyTogether) {
  for (const Shape& shape : EverySchedule()) ExpectPlans(shape);
}

TEST(PlanTest, AllRanksOfEveryShapeVerifyTogether) {
  for (const Shape& shape : ManyShapes()) ExpectPlans(shape);
  for (Shape shape : {Domino({2, 1, 1}, 2), ShapeOf("domino_inter"), ShapeOf("domino_hybrid")}) {
    shape.tp_size = 4;
    shape.dtype = DType::kBF16;
    shape.dropout = 0.1;
    shape.sequence_parallel = true;
    shape.recompute = Recompute::kFull;
    ExpectPlans(shape);
    shape.merge_wgrads = true;
    ExpectPlans(shape);
  }
}

TEST(PlanTest, EveryWaitIsNeededOrRedundant) {
  for (Shape shape : EverySchedule()) {
    // It waits to keep compute and communication apart, whatever their data.
    if (shape.schedule == "megatron_sync") continue;
    shape.layers = 1;
    const RankPlan plan = PlanOf(shape, 1);
    SCOPED_TRACE(Describe(shape));
    EXPECT_GT(ExpectEveryWaitNeededOrRedundant(plan.program, plan.arenas).needed, 0);
  }
}

// Kind, tag, attributes and operands of each operation, but neither its place nor which copy of a
// buffer it uses.
std::multiset<std::string> OperationsOf(const Program& program) {
  std::multiset<std::string> operations;
  for (const Op& op : program.ops) {
    std::string line = std::string(InfoOf(op.kind).name) + " " + PrintTag(op.tag);
    for (int64_t attribute : op.attributes) line += " " + std::to_string(attribute);
    for (const std::vector<int>* ids : {&op.in, &op.out}) {
      for (int id : *ids) {
        const std::string& name = program.buffers[static_cast<size_t>(id)].name;
        line += " " + name.substr(0, name.find('#'));
      }
    }
    operations.insert(line);
  }
  return operations;
}

// A schedule neither adds, removes nor changes an operation of the oracle.
TEST(PlanTest, EveryScheduleIsAPermutationOfItsOracle) {
  std::vector<Shape> shapes = EverySchedule();
  shapes.push_back(Domino({2, 1}, 3));
  shapes.back().defer_wgrads = 3;
  shapes.back().merge_wgrads = true;
  for (const Shape& shape : shapes) {
    const std::multiset<std::string> ours = OperationsOf(PlanOf(shape).program);
    const std::multiset<std::string> oracles =
        OperationsOf(PlanOf(shape, 0, Variant::kSerialOracle).program);
    std::vector<std::string> differences;
    std::set_symmetric_difference(ours.begin(), ours.end(), oracles.begin(), oracles.end(),
                                  std::back_inserter(differences));
    EXPECT_THAT(differences, IsEmpty()) << Describe(shape);
  }
}

TEST(PlanTest, TheOracleRunsOnOneLaneInCanonicalOrder) {
  for (const std::string& name : ScheduleNames()) {
    const Program program = PlanOf(ShapeOf(name), 0, Variant::kSerialOracle).program;
    EXPECT_EQ(program.lanes.size(), 1u);
    for (const Op& op : program.ops) EXPECT_TRUE(op.waits.empty());
  }
  // That of the row split is the same for every schedule of two slices.
  EXPECT_EQ(Print(PlanOf(ShapeOf("nanotron"), 0, Variant::kSerialOracle).program),
            Print(PlanOf(ShapeOf("domino_row"), 0, Variant::kSerialOracle).program));
}

// Contributions to one gradient come in (micro-batch, slice) order, whatever the schedule.
void ExpectOrderedGradients(const Shape& shape) {
  const Program program = PlanOf(shape).program;
  std::map<int, std::pair<int, int>> last;  // gradient -> (micro-batch, slice)
  for (const Op& op : program.ops) {
    if (InfoOf(op.kind).role != Role::kWeightGradient) continue;
    for (int id : op.out) {
      const std::pair<int, int> now{op.tag.micro_batch, op.tag.slice};
      const auto it = last.find(id);
      // A tied embedding gets the head's contributions of a micro-batch before the embedding's.
      const bool tied =
          program.buffers[static_cast<size_t>(id)].name == "embedding.token.weight.grad";
      const bool turns = tied && op.kind == OpKind::kEmbedGrad && now.second == 0;
      EXPECT_TRUE(it == last.end() || it->second < now || (turns && it->second.first == now.first))
          << Describe(shape) << ": " << PrintTag(op.tag);
      last[id] = now;
    }
  }
  EXPECT_FALSE(last.empty());
}

TEST(PlanTest, WeightGradientsAccumulateInMicroBatchAndSliceOrder) {
  for (const Shape& shape : EverySchedule(3)) ExpectOrderedGradients(shape);
  for (Shape shape : {Domino({2, 1, 1}, 2), ShapeOf("domino_hybrid")}) {
    for (int defer : {0, 1, 4}) {
      shape.defer_wgrads = defer;
      shape.merge_wgrads = false;
      ExpectOrderedGradients(shape);
      shape.merge_wgrads = true;
      ExpectOrderedGradients(shape);
    }
  }
}

TEST(PlanTest, UnequalSlicesTakeTheirShareOfRows) {
  const RankPlan plan = PlanOf(Domino({1, 3}));
  std::vector<int64_t> rows;
  for (const Op& op : plan.program.ops) {
    if (op.kind != OpKind::kAttention || op.tag.layer != 0) continue;
    rows.push_back(plan.program.buffers[static_cast<size_t>(op.in[0])].shape[0]);
  }
  EXPECT_THAT(rows, ElementsAre(4, 12));
}

TEST(PlanTest, OneRankHasNothingToHide) {
  for (Shape shape : EverySchedule()) {
    shape.tp_size = 1;
    const Program program = PlanOf(shape).program;
    EXPECT_EQ(program.lanes.size(), 1u);
    for (const Op& op : program.ops) EXPECT_FALSE(IsCollective(op.kind)) << Describe(shape);
  }
}

TEST(PlanTest, TheSameSpecGivesTheSameProgram) {
  EXPECT_EQ(Print(PlanOf(Domino({2, 1}, 2)).program), Print(PlanOf(Domino({2, 1}, 2)).program));
}

TEST(PlanTest, AnUnknownScheduleNamesTheKnownOnes) {
  EXPECT_EQ(BuildPlan(SpecOf({.schedule = "domino_column"}), 0).status(),
            absl::InvalidArgumentError(
                "schedule.name: found 'domino_column', expected one of megatron_sync, "
                "megatron_async, domino_row, domino_col, domino_hybrid, domino_paper, "
                "domino_release1, domino_intra, domino_inter, nanotron"));
}

TEST(PlanTest, ASchedulesConditionsNameItTheFieldFoundAndExpected) {
  const auto sliced = [](const std::string& name, std::vector<int> slices, int splits = 1) {
    Shape shape = ShapeOf(name);
    shape.slices = std::move(slices);
    shape.splits = splits;
    return shape;
  };
  const auto deferring = [](const std::string& name) {
    Shape shape = ShapeOf(name);
    shape.defer_wgrads = 2;
    return shape;
  };
  const std::string batch =
      ": micro_batch_size: found 1, expected at least 2: it cuts the batch "
      "into slices of whole sequences";
  std::vector<std::pair<Shape, std::string>> cases = {
      {sliced("domino_row", {1}), "schedule domino_row" + batch},
      {sliced("domino_hybrid", {1}, 2), "schedule domino_hybrid" + batch},
      {sliced("domino_row", {1, 1}, 2), "schedule domino_row: splits: found 2, expected 1"},
      {sliced("megatron_sync", {2}, 2), "schedule megatron_sync: splits: found 2, expected 1"},
      {sliced("domino_inter", {1, 1}, 4), "schedule domino_inter: splits: found 4, expected 1"}};
  for (const char* name : {"megatron_sync", "megatron_async", "domino_col"}) {
    cases.emplace_back(sliced(name, {1, 2, 1}),
                       std::string("schedule ") + name + ": slices: found 3, expected 1");
  }
  for (const char* name :
       {"domino_paper", "domino_release1", "domino_intra", "domino_inter", "nanotron"}) {
    const std::string schedule = std::string("schedule ") + name;
    cases.emplace_back(sliced(name, {1}), schedule + batch);
    for (const std::vector<int>& slices : {std::vector<int>{2}, {1, 1, 1}}) {
      cases.emplace_back(sliced(name, slices), schedule + ": slices: found " +
                                                   std::to_string(slices.size()) +
                                                   ", expected 2, as published");
    }
  }
  for (const std::string& name : ScheduleNames()) {
    if (name == "domino_row" || name == "domino_col" || name == "domino_hybrid") continue;
    cases.emplace_back(deferring(name), "schedule " + name + ": defer_wgrads: found 2, expected 0");
  }
  for (const auto& [shape, message] : cases) {
    EXPECT_EQ(BuildPlan(SpecOf(shape), 0).status(), absl::InvalidArgumentError(message));
    // Whatever is built of it.
    EXPECT_EQ(BuildPlans(SpecOf(shape), Variant::kSerialOracle).status(),
              absl::InvalidArgumentError(message));
  }
}

}  // namespace
}  // namespace stretto
