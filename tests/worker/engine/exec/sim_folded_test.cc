// SPDX-License-Identifier: Apache-2.0

// Timelines of folded stages: all ranks together, on links between stages that take no time.

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/engine/exec/backend_sim/timeline.h"
#include "worker/engine/schedule/plan.h"

namespace stretto {
namespace {

// Layers so wide, and a vocabulary so small, that the ends of the model take next to nothing.
EngineSpec FoldedOver(int stages, int micro_batches, int tp_size) {
  EngineSpec spec;
  spec.model = {.layers = 2 * stages * 4,
                .hidden = 8192,
                .heads = 64,
                .ffn_hidden = 4 * 8192,
                .sequence_length = 1024,
                .vocab_size = 2};
  spec.schedule = {.name = "helix", .slices = {1}, .pipeline = "folded"};
  spec.pp_size = stages;
  spec.chunks_per_stage = 2;
  spec.tp_size = tp_size;
  spec.micro_batches = micro_batches;
  return spec;
}

// The end of the last pass: what the optimizer does behind it is not the pipeline's.
double SecondsOf(const EngineSpec& spec, double tp_bytes_per_second) {
  CostModel cost = {
      .machine = {.flops_per_second = 1e15, .bytes_per_second = 1e16},
      .interconnect = {.bytes_per_second = 1e30, .node_bytes_per_second = tp_bytes_per_second},
      .contention = {}};
  for (int rank = 0; rank < spec.world_size(); ++rank)
    cost.interconnect.topology.node.push_back(rank / spec.tp_size);
  const auto plans = BuildPlans(spec);
  EXPECT_TRUE(plans.ok()) << plans.status();
  std::vector<SimulatedRank> ranks;
  for (const RankPlan& plan : *plans) ranks.push_back({&plan.program, &cost});
  const auto intervals = Simulate(ranks);
  EXPECT_TRUE(intervals.ok()) << intervals.status();
  int64_t end = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const Program& program = *ranks[i].program;
    for (OpId op : program.ops.ids()) {
      if (program.ops[op].tag.phase == Phase::kOptimizer) continue;
      end = std::max(end, (*intervals)[i][op.position()].end);
    }
  }
  return static_cast<double>(end) * 1e-9;
}

// Of steps of two and four stages, the largest and the smallest share of the closed form,
// (M - 1) c + p (F + B), where c and F + B are those of the same chunks on one stage.
struct Shares {
  double least = 2, most = 0;
};
Shares SharesOfClosedForm(int tp_size, double tp_bytes_per_second) {
  const auto alone = [&](int micro_batches) {
    return SecondsOf(FoldedOver(1, micro_batches, tp_size), tp_bytes_per_second);
  };
  const double passes = alone(1), woven = (alone(9) - alone(5)) / 4;
  Shares shares;
  for (int stages : {2, 4}) {
    for (int micro_batches : {stages + 1, 2 * stages, 4 * stages}) {
      const double expected = (micro_batches - 1) * woven + stages * passes;
      const double step =
          SecondsOf(FoldedOver(stages, micro_batches, tp_size), tp_bytes_per_second);
      shares.least = std::min(shares.least, step / expected);
      shares.most = std::max(shares.most, step / expected);
    }
  }
  return shares;
}

TEST(SimFoldedTest, AStepTakesTheTimeOfTheClosedForm) {
  const Shares shares = SharesOfClosedForm(1, 1e30);
  EXPECT_GE(shares.least, 0.999);
  EXPECT_LE(shares.most, 1.001);
}

// Where collectives take long, a woven pair takes less than two passes. A step is then shorter than
// the closed form, because a pass that follows another one hides its last collective.
TEST(SimFoldedTest, AStepThatHidesCollectivesTakesAtMostTheTimeOfTheClosedForm) {
  const double passes = SecondsOf(FoldedOver(1, 1, 2), 1e11);
  const double woven = SecondsOf(FoldedOver(1, 2, 2), 1e11) - passes;
  EXPECT_LT(woven, 0.8 * passes);
  const Shares shares = SharesOfClosedForm(2, 1e11);
  EXPECT_GE(shares.least, 0.97);
  EXPECT_LE(shares.most, 1.001);
}

}  // namespace
}  // namespace stretto
