// SPDX-License-Identifier: Apache-2.0

// Timelines of pipelines: all stages together, on a link that is as slow as a forward pass.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "proto/spec/schedules.h"
#include "tests/worker/engine/exec/intervals.h"
#include "worker/engine/exec/backend_sim/timeline.h"
#include "worker/engine/exec/ledger.h"
#include "worker/engine/schedule/pipeline/slack.h"
#include "worker/engine/schedule/plan.h"

namespace stretto {
namespace {

constexpr int kMicroBatches = 16;

EngineSpec Staged(int stages, const std::string& order) {
  EngineSpec spec;
  spec.model = {.layers = 4 * stages,
                .hidden = 64,
                .heads = 4,
                .ffn_hidden = 256,
                .sequence_length = 32,
                .vocab_size = 128};
  spec.schedule = {.name = "megatron_sync", .slices = {4}, .pipeline = order};
  spec.pp_size = stages;
  spec.micro_batch_size = 4;
  spec.micro_batches = kMicroBatches;
  return spec;
}

struct Simulated {
  std::vector<Program> programs;
  std::vector<std::vector<Interval>> intervals;
  double seconds = 0;
};

// A transfer of [128, 64] f32 takes `transfer_seconds` of the interface, and `latency_seconds` more
// that no other transfer notices.
Simulated Played(const EngineSpec& spec, double transfer_seconds, double latency_seconds = 0) {
  Simulated result;
  const auto plans = BuildPlans(spec);
  EXPECT_TRUE(plans.ok()) << plans.status();
  const double bytes = 4 * 128 * 64;
  const CostModel cost = {
      .machine = {1e9, 1e12},
      .interconnect = {.bytes_per_second = bytes / std::max(transfer_seconds, 1e-12),
                       .latency_seconds = latency_seconds},
      .contention = {}};
  std::vector<SimulatedRank> ranks;
  for (const RankPlan& plan : *plans) result.programs.push_back(plan.program);
  for (const Program& program : result.programs) ranks.push_back({&program, &cost});
  auto intervals = Simulate(ranks);
  EXPECT_TRUE(intervals.ok()) << intervals.status();
  result.intervals = *std::move(intervals);
  for (const auto& of_rank : result.intervals) {
    result.seconds =
        std::max(result.seconds, static_cast<double>(SpanOf(of_rank).end) / double{kSecond});
  }
  return result;
}

Simulated Played(int stages, const std::string& order, double transfer_seconds) {
  return Played(Staged(stages, order), transfer_seconds);
}

// Computation of the first stage in a step, in seconds.
double ComputeSeconds(const Simulated& run) {
  double seconds = 0;
  for (OpId id : run.programs[0].ops.ids()) {
    const Interval at = run.intervals[0][id.position()];
    if (run.programs[0].ops[id].group < 0) seconds += static_cast<double>(at.end - at.begin) * 1e-9;
  }
  return seconds;
}

TEST(SimPipelineTest, TheBubbleIsThatOfItsStages) {
  for (const char* order : {"1f1b", "eager_1f1b", "gpipe"}) {
    const Simulated two = Played(2, order, 0);
    const double compute = ComputeSeconds(two);
    // The last stage also has the head, so it is a little slower than the first.
    EXPECT_GT(two.seconds, (1 + 1.0 / kMicroBatches) * compute) << order;
    EXPECT_LT(two.seconds, (1 + 1.0 / kMicroBatches) * compute * 1.2) << order;
  }
}

// (p - 1) (F + B) / v of a step of m (F + B), where stages have equal work: the vocabulary is
// small.
TEST(SimPipelineTest, ChunksShortenTheBubble) {
  const auto seconds = [](int chunks) {
    EngineSpec spec = Staged(4, chunks > 1 ? "interleaved_1f1b" : "1f1b");
    spec.chunks_per_stage = chunks;
    spec.model.vocab_size = 2;
    return Played(spec, 0).seconds;
  };
  const double one = seconds(1), period = one / (kMicroBatches + 3);
  for (int chunks : {2, 4})
    EXPECT_NEAR(seconds(chunks), (kMicroBatches + 3.0 / chunks) * period, 0.02 * one) << chunks;
}

// On a link on which a transfer takes about as long as a forward pass.
TEST(SimPipelineTest, RunningAheadHidesTransfersAndBlockingHidesNone) {
  const double free = Played(2, "eager_1f1b", 0).seconds;
  const double transfer = free / (3.0 * kMicroBatches);
  const double eager = Played(2, "eager_1f1b", transfer).seconds;
  const double plain = Played(2, "1f1b", transfer).seconds;
  const double blocking = Played(2, "1f1b_blocking", transfer).seconds;
  EXPECT_LT(eager, 1.06 * free + 2 * transfer);
  EXPECT_GT(plain, 1.2 * eager);
  EXPECT_GT(blocking, 1.2 * eager);
  EXPECT_GE(blocking, plain);
}

TEST(SimPipelineTest, DelayedWeightGradientsShrinkTheBubble) {
  const auto seconds = [](WgradDelay delay, double transfer_seconds) {
    EngineSpec spec = Staged(4, "1f1b");
    spec.schedule.wgrad_delay = delay;
    return Played(spec, transfer_seconds).seconds;
  };
  const double none = seconds(WgradDelay::kNone, 0), send = seconds(WgradDelay::kSend, 0);
  const double bubble = seconds(WgradDelay::kBubble, 0);
  // Forward, backward and weights take about as long as each other. With 16 micro-batches and
  // passes of one unit the steps take 57, 54 and 51 units.
  EXPECT_NEAR(send / none, 54.0 / 57, 0.02);
  EXPECT_NEAR(bubble / none, 51.0 / 57, 0.02);
  // On a link that takes half a unit they take 71 and 57: transfers back hide.
  const double transfer = none / 57 / 2;
  EXPECT_NEAR(seconds(WgradDelay::kSend, transfer) / seconds(WgradDelay::kNone, transfer),
              57.0 / 71, 0.03);
}

// Real programs, with the copies that they keep, do what the rule promises (slack_test.cc): where a
// transfer takes a period each way, only the first way there and the last way back show. The time
// is latency, because a stage in the middle sends both ways over one interface.
TEST(SimPipelineTest, SlackHidesTransfersThatEagerDoesNot) {
  EngineSpec spec = Staged(4, "1f1b");
  spec.micro_batches = 32;
  const double free = Played(spec, 0).seconds;
  const double period = free / (32 + 3);  // the bubble is three of them
  const std::vector<StageSeconds> stages(
      4, {.forward = period / 3, .backward = 2 * period / 3, .delayed = 0});
  const double transfer = 0.95 * period;
  spec.schedule.warm_up = SlackWarmUps(
      stages, std::vector<BoundarySeconds>(3, {transfer, transfer}), spec.micro_batches);
  EXPECT_EQ(spec.schedule.warm_up, (std::vector<int>{10, 7, 4, 1}));
  // Three boundaries there and back, and the six steps of the norm's all-reduce over four stages.
  const double bound = free + 6 * transfer + 6 * transfer;
  EXPECT_LE(Played(spec, 0, transfer).seconds, 1.05 * bound);
  spec.schedule.warm_up = {};
  spec.schedule.pipeline = "eager_1f1b";
  EXPECT_GT(Played(spec, 0, transfer).seconds, 1.2 * bound);
}

// Two ranks share each of four stages of one layer, and a collective takes about as long as what
// hides it.
TEST(SimPipelineTest, ClosedTailsHideWhatAPassEndsWith) {
  const auto seconds = [](bool sequence_parallel, Variant variant) {
    EngineSpec spec = Staged(4, "eager_1f1b");
    spec.model.layers = 4;
    spec.model.sequence_length = 64;
    spec.tp_size = 2;
    spec.schedule.name = "domino_row";
    spec.schedule.slices = {2, 2};
    spec.schedule.sequence_parallel = sequence_parallel;
    CostModel cost = {.machine = {1e9, 1e11},
                      .interconnect = {.bytes_per_second = 1e9, .node_bytes_per_second = 1e7},
                      .contention = {}};
    for (int rank = 0; rank < spec.world_size(); ++rank)
      cost.interconnect.topology.node.push_back(rank / spec.tp_size);
    const auto plans = BuildPlans(spec, variant);
    EXPECT_TRUE(plans.ok()) << plans.status();
    std::vector<SimulatedRank> ranks;
    for (const RankPlan& plan : *plans) ranks.push_back({&plan.program, &cost});
    const auto intervals = Simulate(ranks);
    EXPECT_TRUE(intervals.ok()) << intervals.status();
    int64_t end = 0;
    for (const auto& of_rank : *intervals) end = std::max(end, SpanOf(of_rank).end);
    return static_cast<double>(end) * 1e-9;
  };
  for (bool sequence_parallel : {false, true}) {
    EXPECT_LT(seconds(sequence_parallel, Variant::kSchedule),
              0.995 * seconds(sequence_parallel, Variant::kOpenTails));
  }
}

TEST(SimPipelineTest, ABlockingStageComputesNothingDuringATransfer) {
  for (const auto& [stages, slices] : {std::pair{2, 1}, {3, 1}, {5, 1}, {3, 2}}) {
    EngineSpec spec = Staged(stages, "1f1b_blocking");
    spec.schedule.slices = EvenSlices(4, slices);
    if (slices > 1) {
      spec.schedule.name = "domino_row";
      spec.schedule.defer_wgrads = 2;
    }
    const Simulated run = Played(spec, 1e-3);
    for (size_t rank = 0; rank < run.intervals.size(); ++rank) {
      const Program& program = run.programs[rank];
      const std::vector<Interval>& intervals = run.intervals[rank];
      for (OpId transfer : program.ops.ids()) {
        if (!IsTransfer(program.ops[transfer].kind)) continue;
        const Interval sent = intervals[transfer.position()];
        for (OpId op : program.ops.ids()) {
          const Op& other = program.ops[op];
          if (other.group >= 0 || other.tag.phase == Phase::kOptimizer) continue;
          const Interval computed = intervals[op.position()];
          EXPECT_TRUE(computed.end <= sent.begin || computed.begin >= sent.end)
              << "rank " << rank << " operations " << transfer.value() << " and " << op.value();
        }
      }
    }
  }
}

// Every instant of every rank belongs to one part of its ledger. A stage waits for others in the
// bubble: for what it receives, and at the end of the step, where the norm is added up.
TEST(SimPipelineTest, TheLedgerShowsTheBubble) {
  const Simulated run = Played(4, "1f1b", 0);
  for (size_t rank = 0; rank < run.intervals.size(); ++rank) {
    const Program& program = run.programs[rank];
    const StepLedger ledger =
        ComputeLedger(program, run.intervals[rank], {}, {0, SpanOf(run.intervals[rank]).end});
    double waited = 0, sum = 0;
    for (const LedgerEntry& entry : ledger.entries) {
      sum += entry.seconds;
      const bool norm = entry.part == LedgerPart::kExposed && entry.group == "pp";
      if (norm || entry.part == LedgerPart::kPipelineWait) waited += entry.seconds;
    }
    EXPECT_NEAR(sum, ledger.seconds, 1e-9);
    EXPECT_NEAR(waited / ledger.seconds, 3.0 / (kMicroBatches + 3), 0.04) << rank;
  }
}

}  // namespace
}  // namespace stretto
