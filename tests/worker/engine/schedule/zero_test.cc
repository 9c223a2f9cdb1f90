// SPDX-License-Identifier: Apache-2.0

// Replicas that share updates (ZeRO): where the collectives stand, what waits for them, and what
// memory it saves.

#include <map>
#include <tuple>

#include "absl/algorithm/container.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/delete_waits.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/layout/layout.h"
#include "worker/engine/model/buckets.h"

namespace stretto {
namespace {

Layout Shared(int dp_size) {
  return {.schedule = "domino_row",
          .tp_size = 1,
          .dp_size = dp_size,
          .zero = 1,
          .slices = {1, 1},
          .micro_batches = 2};
}

// Of a kind, by the names of their buckets.
std::map<std::string, OpId> CollectivesOf(const Program& program, OpKind kind) {
  std::map<std::string, OpId> found;
  const GroupId replicas = FindGroup(program.groups, kDpGroupName);
  for (OpId id : program.ops.ids()) {
    const Op& op = program.ops[id];
    if (op.kind == kind && op.group == replicas) found[op.tag.name] = id;
  }
  return found;
}

bool WaitsFor(const Program& program, OpId op, OpId other) {
  return absl::c_linear_search(program.ops[op].waits, other);
}

TEST(ZeroTest, OnlyTheFirstReaderOfHalfALayerWaitsForItsWeights) {
  const Program program = PlanOf(Shared(2)).program;
  const auto gathers = CollectivesOf(program, OpKind::kAllGather);
  ASSERT_EQ(gathers.size(), 8u);
  for (const auto& [bucket, layer, reader] :
       {std::tuple{"layers.0.attention", 0, "ln1"}, std::tuple{"layers.0.mlp", 0, "ln2"},
        std::tuple{"layers.1.attention", 1, "ln1"}, std::tuple{"layers.1.mlp", 1, "ln2"}}) {
    const OpId gather = gathers.at(bucket);
    int waiting = 0;
    for (OpId id : program.ops.ids()) {
      const Op& op = program.ops[id];
      if (op.group >= 0 || !WaitsFor(program, id, gather)) continue;
      ++waiting;
      EXPECT_EQ(op.tag.layer, layer) << PrintTag(op.tag);
      EXPECT_EQ(op.tag.name, reader);
      EXPECT_EQ(op.tag.micro_batch, 0);
    }
    EXPECT_EQ(waiting, 1);
    EXPECT_TRUE(program.ops[gather].waits.empty());  // it starts with the step
  }
}

TEST(ZeroTest, SumsBeginUnderBackward) {
  const Program program = PlanOf(Shared(2)).program;
  const auto sums = CollectivesOf(program, OpKind::kReduceScatter);
  ASSERT_EQ(sums.size(), 8u);
  EXPECT_TRUE(CollectivesOf(program, OpKind::kAllReduce).contains("grad_norm"));
  for (OpId wait : program.ops[sums.at("layers.1.attention")].waits)
    EXPECT_NE(program.ops[wait].tag.layer, 0) << PrintTag(program.ops[wait].tag);
}

TEST(ZeroTest, EveryWaitIsNeeded) {
  for (int dp_size : {2, 3}) {
    Layout layout = Shared(dp_size);
    layout.dtype = dp_size == 2 ? DType::kF32 : DType::kBF16;
    const RankPlan plan = PlanOf(layout, Rank::Of(1));
    const WaitCounts counts = ExpectEveryWaitNeededOrRedundant(plan.program, plan.arenas);
    EXPECT_GT(counts.needed, 12);
  }
}

// The state of a rank is 1/dp of it, and padding of at most 1 %.
TEST(ZeroTest, TheOptimizersStateIsShared) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    for (int dp_size : {2, 4}) {
      Layout layout = Shared(dp_size);
      layout.dtype = dtype;
      EngineSpec spec = SpecOf(layout);
      spec.model.hidden = 72;
      spec.model.ffn_hidden = 288;
      const int64_t shared = (*PlanArenas(spec, Rank::Of(0)))[ArenaClass::kOptimizer];
      spec.zero = 0;
      const int64_t whole = (*PlanArenas(spec, Rank::Of(0)))[ArenaClass::kOptimizer];
      EXPECT_GE(shared * dp_size, whole);
      EXPECT_LE(shared * dp_size, whole + whole / 100);
    }
  }
}

// A norm of 8 elements is shorter than a part, so the first replica updates it alone.
TEST(ZeroTest, AReplicaMayUpdateNothingOfAParameter) {
  const EngineSpec spec = SpecOf(Shared(2));
  for (Rank rank : IdRange<Rank>(2)) {
    const std::vector<Parameter> parameters = ParametersOf(spec, rank);
    const RankPlan plan = PlanOf(spec, rank);
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i].name != "final_norm.weight") continue;
      const bool updates = rank == 0;
      EXPECT_EQ(plan.buffers.updated[i].count(), updates ? 8 : 0);
      EXPECT_EQ(plan.buffers.master[i] >= 0, updates);
      EXPECT_EQ(plan.buffers.moment2[i] >= 0, updates);
      EXPECT_EQ(absl::c_any_of(plan.program.ops,
                               [&](const Op& op) {
                                 return op.kind == OpKind::kAdamW &&
                                        op.tag.name == parameters[i].name;
                               }),
                updates);
    }
  }
}

TEST(ZeroTest, AnEvaluationGathersWeightsAndNothingElse) {
  EngineSpec spec = SpecOf(Shared(2));
  const Program program = BuildPlan(spec, 0, Variant::kEvaluation)->program;
  EXPECT_EQ(CollectivesOf(program, OpKind::kAllGather).size(), 8u);
  EXPECT_TRUE(CollectivesOf(program, OpKind::kReduceScatter).empty());
  spec.zero = 0;
  EXPECT_TRUE(
      CollectivesOf(BuildPlan(spec, 0, Variant::kEvaluation)->program, OpKind::kAllGather).empty());
}

}  // namespace
}  // namespace stretto
