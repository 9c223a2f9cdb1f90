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

// What a step is simulated for. The layers are wide; the vocabulary is small, but with several
// shards the embedding and the head have collectives of the size of a layer's.
struct Work {
  int tp_size = 1;
  double tp_bytes_per_second = 1e30;
  bool sequence_parallel = false;
};

EngineSpec FoldedOver(int stages, int micro_batches, int layers_of_chunk, const Work& work) {
  EngineSpec spec;
  spec.model = {.layers = 2 * stages * layers_of_chunk,
                .hidden = 8192,
                .heads = 64,
                .ffn_hidden = 4 * 8192,
                .sequence_length = 1024,
                .vocab_size = 2};
  spec.schedule = {.name = "helix",
                   .slices = {1},
                   .sequence_parallel = work.sequence_parallel,
                   .pipeline = "folded"};
  spec.pp_size = stages;
  spec.chunks_per_stage = 2;
  spec.tp_size = work.tp_size;
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

// The part of a step that a model's layers take, without its ends: what two more layers of each
// chunk add. Only the first stage has the ends, so with them no two stages are alike.
double SecondsOfLayers(int stages, int micro_batches, const Work& work) {
  const auto seconds = [&](int layers_of_chunk) {
    return SecondsOf(FoldedOver(stages, micro_batches, layers_of_chunk, work),
                     work.tp_bytes_per_second);
  };
  return seconds(4) - seconds(2);
}

// A step takes (M - 1) c + p (F + B), where c and F + B are those of the same chunks on one stage.
void ExpectClosedForm(const Work& work) {
  const double passes = SecondsOfLayers(1, 1, work),
               woven = (SecondsOfLayers(1, 9, work) - SecondsOfLayers(1, 5, work)) / 4;
  for (int stages : {2, 4}) {
    for (int micro_batches : {stages + 1, 2 * stages, 4 * stages}) {
      const double expected = (micro_batches - 1) * woven + stages * passes;
      EXPECT_NEAR(SecondsOfLayers(stages, micro_batches, work) / expected, 1, 1e-3)
          << stages << " stages, " << micro_batches << " micro-batches, TP " << work.tp_size;
    }
  }
}

TEST(SimFoldedTest, AStepTakesTheTimeOfTheClosedForm) { ExpectClosedForm({}); }

TEST(SimFoldedTest, AStepThatHidesCollectivesTakesTheTimeOfTheClosedForm) {
  const Work work = {.tp_size = 2, .tp_bytes_per_second = 1e11};
  const double passes = SecondsOfLayers(1, 1, work);
  EXPECT_LT(SecondsOfLayers(1, 2, work) - passes, 0.8 * passes);  // they hide
  ExpectClosedForm(work);
  ExpectClosedForm({.tp_size = 2, .tp_bytes_per_second = 4e10});  // longer than computation
  ExpectClosedForm({.tp_size = 2, .tp_bytes_per_second = 1e11, .sequence_parallel = true});
}

// Only the first stage has the ends of the model: of p + 1 micro-batches, one passes through it
// alone, and one woven, and the others through stages without ends. Each micro-batch more takes at
// most a woven pair of the first stage.
TEST(SimFoldedTest, EndsOfTheModelCountOnce) {
  const Work work = {.tp_size = 2, .tp_bytes_per_second = 1e11};
  const auto seconds = [&](int stages, int micro_batches) {
    return SecondsOf(FoldedOver(stages, micro_batches, 4, work), work.tp_bytes_per_second);
  };
  const auto woven = [](auto of) { return (of(9) - of(5)) / 4; };
  const auto layers = [&](int micro_batches) {
    return 2 * SecondsOfLayers(1, micro_batches, work);
  };
  const double first = woven([&](int micro_batches) { return seconds(1, micro_batches); });
  const double other = woven(layers);
  EXPECT_GT(first, 1.01 * other);
  for (int stages : {2, 4}) {
    const double expected = seconds(1, 1) + first + (stages - 1) * (layers(1) + other);
    EXPECT_NEAR(seconds(stages, stages + 1) / expected, 1, 1e-3);
    for (int more : {1, stages, 2 * stages}) {
      const double bound = expected + more * first, found = seconds(stages, stages + 1 + more);
      EXPECT_LE(found, 1.001 * bound) << stages << " stages, " << more << " more";
      EXPECT_GE(found, 0.97 * bound) << stages << " stages, " << more << " more";
    }
  }
}

}  // namespace
}  // namespace stretto
