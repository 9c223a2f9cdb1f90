// SPDX-License-Identifier: Apache-2.0

// Stages of several chunks: their programs, what they keep, and faults that the verifier must find.

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/program/expect_rejected.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/layout/layout.h"
#include "worker/engine/program/text.h"
#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/units.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;

Layout Chunked(int stages, int chunks, int micro_batches) {
  Layout layout = Domino({1}, micro_batches, stages * chunks);
  layout.tp_size = 1;
  layout.pp_size = stages;
  layout.chunks = chunks;
  layout.pipeline = "interleaved_1f1b";
  return layout;
}

absl::Status VerdictOf(const Layout& layout, Variant variant = Variant::kSchedule) {
  return BuildPlans(SpecOf(layout), variant).status();
}

// Every pass is proved on its own rank, and all ranks end together.
TEST(ChunksTest, EveryNumberOfStagesAndChunksEnds) {
  for (int stages = 2; stages <= 8; ++stages) {
    for (int chunks : {2, 3, 4}) {
      for (int groups : {1, 2, 3}) {
        const Layout layout = Chunked(stages, chunks, groups * stages);
        EXPECT_EQ(VerdictOf(layout), absl::OkStatus()) << Describe(layout);
      }
    }
  }
}

// A long step is that of a short one, repeated.
TEST(ChunksTest, ALongStepVerifies) {
  for (const auto& [stages, groups] : {std::pair{2, 25}, {3, 11}, {4, 10}}) {
    const Layout layout = Chunked(stages, 2, groups * stages);
    EXPECT_EQ(VerdictOf(layout), absl::OkStatus()) << Describe(layout);
  }
}

// The last group of an evaluation may have fewer micro-batches than there are stages.
TEST(ChunksTest, AnEvaluationTakesAnyNumberOfMicroBatches) {
  for (int micro_batches : {1, 2, 3, 4, 5, 40, 41, 42}) {
    EXPECT_EQ(VerdictOf(Chunked(3, 2, micro_batches), Variant::kEvaluation), absl::OkStatus())
        << micro_batches;
  }
}

TEST(ChunksTest, EveryScheduleOrdersAChunk) {
  for (const std::string& schedule : UnwovenSchedules()) {
    for (Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
      Layout layout = LayoutOf(schedule, 5);
      layout.pp_size = 2;
      layout.chunks = 2;
      layout.pipeline = "interleaved_1f1b";
      layout.recompute = recompute;
      layout.micro_batches = 8;
      if (FindSchedule(schedule)->defers) layout.defer_wgrads = 2;
      EXPECT_EQ(VerdictOf(layout), absl::OkStatus()) << Describe(layout);
    }
  }
}

TEST(ChunksTest, WeightGradientsMayWaitForTheSendsOfTheirPass) {
  Layout layout = Chunked(3, 2, 9);
  layout.wgrad_delay = WgradDelay::kSend;
  EXPECT_EQ(VerdictOf(layout), absl::OkStatus());
  const auto last = [&](Rank rank, const std::string& unit) {
    const StepProgram step = PlanOf(layout, rank).step;
    const IdVector<OpId, Op>& ops = step.units[FindUnit(step, unit)].ops;
    return InfoOf(ops[ops.next() - 1].kind).role;
  };
  EXPECT_EQ(last(1, "backward.0"), OperationRole::kWeightGradient);
  EXPECT_EQ(last(0, "backward.1"), OperationRole::kWeightGradient);
}

TEST(ChunksTest, AStageHasItsMeasurements) {
  for (Variant variant : {Variant::kCommunicationOnly, Variant::kComputeOnly,
                          Variant::kSerialOracle, Variant::kOpenTails}) {
    EXPECT_EQ(VerdictOf(Chunked(3, 2, 6), variant), absl::OkStatus());
  }
}

// The units of a rank's instances, with their micro-batches: "forward.0 0".
std::vector<std::string> InstancesOf(const StepProgram& step) {
  std::vector<std::string> all;
  for (const Instance& instance : step.instances)
    all.push_back(absl::StrCat(step.units[instance.unit].name, " ",
                               absl::StrJoin(instance.micro_batches, ",")));
  return all;
}

TEST(ChunksTest, EachHasUnitsOfItsOwn) {
  EXPECT_THAT(
      InstancesOf(PlanOf(Chunked(2, 2, 2), 1).step),
      ElementsAre("begin ", "forward.0 0", "forward.0 1", "forward.1 0", "backward.1 0",
                  "forward.1 1", "backward.1 1", "backward.0 0", "backward.0 1", "optimizer "));
}

// What a unit does, by layers and transfers: "recv2 2 3 send4" and, backward, "recv4 3 2 send2".
std::string LayersOf(const StepProgram& step, const std::string& unit) {
  std::vector<std::string> layers;
  for (const Op& op : step.units[FindUnit(step, unit)].ops) {
    const std::string name = IsTransfer(op.kind) ? absl::StrCat(InfoOf(op.kind).name, op.tag.layer)
                             : op.tag.layer >= 0 ? absl::StrCat(op.tag.layer)
                                                 : op.tag.name;
    if (std::find(layers.begin(), layers.end(), name) == layers.end()) layers.push_back(name);
  }
  return absl::StrJoin(layers, " ");
}

TEST(ChunksTest, AreCutAtTheirBoundaries) {
  Layout layout = Chunked(2, 2, 2);
  layout.schedule = "megatron_sync";
  layout.layers = 8;
  const StepProgram first = PlanOf(layout, 0).step, last = PlanOf(layout, 1).step;
  EXPECT_EQ(LayersOf(first, "forward.0"), "embed position 0 1 send2");
  EXPECT_EQ(LayersOf(first, "forward.1"), "recv4 4 5 send6");
  EXPECT_EQ(LayersOf(first, "backward.1"), "recv6 5 4 send4");
  EXPECT_EQ(LayersOf(first, "backward.0"), "recv2 1 0 embed position");
  EXPECT_EQ(LayersOf(last, "forward.0"), "recv2 2 3 send4");
  EXPECT_EQ(LayersOf(last, "forward.1"), "recv6 6 7 final_norm head max sum loss");
  EXPECT_EQ(LayersOf(last, "backward.0"), "recv4 3 2 send2");
}

// One more than a chunk has in flight where something arrives (pipeline_order_test.cc).
TEST(ChunksTest, KeepTheirOwnCopies) {
  std::map<std::string, int> slots;
  for (Rank rank : {Rank(0), Rank(3)}) {
    for (const Buffer& buffer : PlanOf(Chunked(4, 2, 16), rank).step.buffers)
      slots[buffer.name] = buffer.slots;
  }
  EXPECT_EQ(slots["L0.y1.s0"], 8);
  EXPECT_EQ(slots["L4.y1.s0"], 4);
  EXPECT_EQ(slots["L3.y1.s0"], 5);
  EXPECT_EQ(slots["L7.y1.s0"], 1);
  EXPECT_EQ(slots["L3.x.s0"], 6);
  EXPECT_EQ(slots["L7.x.s0"], 2);
  EXPECT_EQ(slots["L0.d_a.s0"], 1);
}

// ---- faults

// The programs of all ranks, of which `change` may change the steps before waits are assigned.
template <class Change>
absl::Status Changed(const Layout& layout, const Change& change) {
  const EngineSpec spec = SpecOf(layout);
  std::vector<Program> programs;
  for (Rank rank : IdRange<Rank>(spec.world_size())) {
    StepProgram step = Emit(spec, rank).step;
    for (auto pass : {SplitChunks, ArrangePipeline}) EXPECT_TRUE(pass(spec, &step).ok());
    change(&step);
    EXPECT_TRUE(AssignLanesAndWaits(spec, &step).ok());
    programs.push_back(Expand(step));
    const CanonicalValues canonical = EmittedValues(spec, rank);
    const absl::Status verdict = Verify(programs.back(), nullptr, {&canonical, 1});
    if (!verdict.ok()) return verdict;
  }
  return VerifyRanks(programs);
}

TEST(ChunkFaultTest, NoChangeIsNone) {
  EXPECT_EQ(Changed(Chunked(3, 2, 6), [](StepProgram*) {}), absl::OkStatus());
}

// A rank that takes another chunk first would get the input of one as that of the other.
TEST(ChunkFaultTest, AnotherOrderOfChunksOnOneRankIsRejected) {
  ExpectRejected(Changed(Chunked(3, 2, 6),
                         [](StepProgram* step) {
                           if (step->rank != 1) return;
                           // The last micro-batch of the first chunk, and the first of the second.
                           std::swap(step->instances[3], step->instances[4]);
                         }),
                 "collectives differ: rank 0 is at");
}

TEST(ChunkFaultTest, SwappedMicroBatchesOfAChunkAreRejected) {
  ExpectRejected(Changed(Chunked(3, 2, 6),
                         [](StepProgram* step) {
                           if (step->rank != 0) return;
                           std::swap(step->instances[4].micro_batches,
                                     step->instances[5].micro_batches);
                         }),
                 "collectives differ: rank 2 is at");
}

TEST(ChunkFaultTest, OneCopyTooFewIsRejected) {
  const auto fewer = [](const char* prefix) {
    return Changed(Chunked(2, 2, 8), [prefix](StepProgram* step) {
      for (Buffer& buffer : step->buffers) {
        if (absl::StartsWith(buffer.name, prefix)) --buffer.slots;
      }
    });
  };
  ExpectRejected(fewer("L0.y1"), "values differ:");
  ExpectRejected(fewer("L2.y1"), "values differ:");
}

// The input of the second chunk comes from the first one, through the other stage.
TEST(ChunkFaultTest, TheSecondChunkBeforeTheFirstIsADeadlock) {
  ExpectRejected(Changed(Chunked(2, 2, 2),
                         [](StepProgram* step) {
                           if (step->rank != 0) return;
                           std::swap(step->instances[1], step->instances[3]);
                         }),
                 "deadlock: nothing can proceed");
}

}  // namespace
}  // namespace stretto
