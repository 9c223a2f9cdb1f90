// SPDX-License-Identifier: Apache-2.0

// Programs of stages that differ in TP size.

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/delete_waits.h"
#include "tests/worker/engine/program/expect_rejected.h"
#include "tests/worker/engine/specs.h"
#include "tests/worker/engine/stage_programs.h"
#include "worker/engine/layout/layout.h"
#include "worker/engine/program/verify.h"

namespace stretto {
namespace {

// Stages of these TP sizes, of a layer each.
Layout Unlike(const std::vector<int>& tp_sizes, Transfer transfer, bool sequence_parallel = false) {
  Layout layout{.schedule = "domino_row",
                .pp_size = static_cast<int>(tp_sizes.size()),
                .transfer = transfer,
                .slices = {1, 1},
                .sequence_parallel = sequence_parallel,
                .micro_batches = 4,
                .layers = static_cast<int>(tp_sizes.size())};
  for (int tp_size : tp_sizes) layout.stages.push_back({.layers = 1, .tp_size = tp_size});
  return layout;
}

TEST(UnlikePlanTest, AllRanksVerifyTogetherInEveryVariant) {
  for (const std::vector<int>& tp_sizes : {std::vector<int>{4, 2, 1}, {1, 4}, {2, 1, 2}}) {
    for (Transfer transfer : kTransfers) {
      for (const char* schedule : {"megatron_sync", "domino_row"}) {
        for (const char* order : {"1f1b", "gpipe", "1f1b_blocking"}) {
          Layout layout = Unlike(tp_sizes, transfer);
          layout.schedule = schedule;
          if (layout.schedule == "megatron_sync") layout.slices = {2};
          layout.pipeline = order;
          layout.recompute = Recompute::kFull;
          for (Variant variant :
               {Variant::kSchedule, Variant::kSerialOracle, Variant::kEvaluation}) {
            const auto plans = BuildPlans(SpecOf(layout), variant);
            EXPECT_TRUE(plans.ok()) << Describe(layout) << ": " << plans.status();
          }
        }
      }
    }
  }
}

TEST(UnlikePlanTest, EveryWaitIsNeededOrRedundant) {
  for (Transfer transfer : {Transfer::kChain, Transfer::kGather}) {
    for (Rank rank : {Rank::Of(0), Rank::Of(3)}) {
      const RankPlan plan = PlanOf(SpecOf(Unlike({2, 4}, transfer)), rank);
      EXPECT_GT(ExpectEveryWaitNeededOrRedundant(plan.program, plan.arenas).needed, 0);
    }
  }
}

// A slice is [4, 8] f32: 128 bytes; two of each of four micro-batches.
TEST(UnlikePlanTest, BytesOfALinkAreThoseOfThePlan) {
  constexpr int64_t kAll = 8 * int64_t{128};
  const std::vector<Program> sends = ProgramsOf(Unlike({2, 4}, Transfer::kSend));
  EXPECT_EQ(SentBytes(sends[0], "pp.0-1"), kAll);
  EXPECT_EQ(SentBytes(sends[0], "pp.0-1.0-4"), kAll);
  EXPECT_EQ(SentBytes(sends[1], "pp.0-1.1-5"), kAll);
  EXPECT_EQ(SentBytes(sends[2], "pp.1-0"), kAll);
  EXPECT_EQ(SentBytes(sends[4], "pp.1-0.4-0"), 0);
  const std::vector<Program> gathers = ProgramsOf(Unlike({2, 4}, Transfer::kGather));
  EXPECT_EQ(SentBytes(gathers[0], "pp.0-1"), kAll / 4);
  EXPECT_EQ(SentBytes(gathers[0], "pp.0-1.0-4"), kAll / 4);
  EXPECT_EQ(SentBytes(gathers[2], "pp.1-0"), kAll / 2);
  const std::vector<Program> rows = ProgramsOf(Unlike({2, 4}, Transfer::kAuto, true));
  EXPECT_EQ(SentBytes(rows[0], "pp.0-1"), kAll / 4);
  EXPECT_EQ(SentBytes(rows[0], "pp.0-1.0-3"), kAll / 4);
}

// Whether two operations touch the same memory.
bool Share(const Program& program, const Op& a, const Op& b) {
  const auto memory = [&](const Op& op) {
    std::set<BufferId> roots;
    for (const BufferList* ids : {&op.in, &op.out}) {
      for (BufferId id : *ids) roots.insert(RootOf(program.buffers, id).buffer);
    }
    return roots;
  };
  const std::set<BufferId> of_b = memory(b);
  const std::set<BufferId> of_a = memory(a);
  return std::any_of(of_a.begin(), of_a.end(), [&](BufferId id) { return of_b.contains(id); });
}

// Also in a schedule that puts the collectives of a stage in turn with its computation.
TEST(UnlikePlanTest, AGatherWaitsForNothingButItsMemory) {
  Layout layout = Unlike({2, 4}, Transfer::kGather);
  layout.schedule = "megatron_sync";
  layout.slices = {2};
  const Program program = PlanOf(SpecOf(layout), 3).program;
  int gathers = 0;
  for (const Op& op : program.ops) {
    if (op.kind != OpKind::kAllGather) continue;
    ++gathers;
    for (OpId wait : op.waits) EXPECT_TRUE(Share(program, op, program.ops[wait]));
  }
  EXPECT_EQ(gathers, 4);
}

TEST(UnlikeFaultTest, AMissingPartIsADeadlock) {
  std::vector<Program> programs = ProgramsOf(Unlike({2, 4}, Transfer::kGather));
  Op& op = programs[1].ops[Find(programs[1], OpKind::kSend, "pp.0-1", 3)];
  op.kind = OpKind::kZero;
  op.out = std::exchange(op.in, {});
  op.lane = 0;
  op.group = -1;
  op.attributes.clear();
  ExpectRejected(VerifyRanks(programs), "deadlock: nothing can proceed");
}

TEST(UnlikeFaultTest, GathersOfOtherMicroBatchesAreRejected) {
  std::vector<Program> programs = ProgramsOf(Unlike({2, 4}, Transfer::kGather));
  const OpId a = Find(programs[3], OpKind::kAllGather, "pp.0-1.2-3-4-5", 1);
  const OpId b = Find(programs[3], OpKind::kAllGather, "pp.0-1.2-3-4-5", 2);
  std::swap(programs[3].ops[a].tag.micro_batch, programs[3].ops[b].tag.micro_batch);
  ExpectRejected(VerifyRanks(programs), "collectives differ");
}

// The gather would exchange what the rank has not received yet.
TEST(UnlikeFaultTest, AGatherThatDoesNotWaitForItsPartIsRejected) {
  Program program = ProgramsOf(Unlike({2, 4}, Transfer::kGather))[2];
  const OpId part = Find(program, OpKind::kRecv, "pp.0-1", 1);
  Op& gather = program.ops[Find(program, OpKind::kAllGather, "pp.0-1.2-3-4-5", 1)];
  ASSERT_THAT(gather.waits, testing::Contains(part));
  WaitList& waits = gather.waits;
  waits.erase(std::remove(waits.begin(), waits.end(), part), waits.end());
  EXPECT_FALSE(Verify(program).ok());
}

TEST(UnlikeFaultTest, AnotherOrderOfAChainIsRejected) {
  std::vector<Program> programs = ProgramsOf(Unlike({1, 2}, Transfer::kChain));
  for (Group& group : programs[2].groups) {
    if (group.name == "pp.0-1.0-1-2")
      std::swap(group.ranks[GroupRank(1)], group.ranks[GroupRank(2)]);
  }
  ExpectRejected(VerifyRanks(programs), "in group pp.0-1.0-1-2, expected 0,1,2");
}

// Two ranks do not divide five rows, so each of them gets all.
TEST(UnlikePlanTest, RowsThatCannotBeSharedAreSentToEachRank) {
  EngineSpec spec = SpecOf(Unlike({1, 2}, Transfer::kGather));
  const auto sends = [&] {
    const IdVector<OpId, Op> ops = PlanOf(spec).program.ops;
    return std::count_if(ops.begin(), ops.end(),
                         [](const Op& op) { return op.kind == OpKind::kSend; });
  };
  EXPECT_EQ(sends(), 16);
  EXPECT_THAT(GroupsOf(spec, 1), testing::SizeIs(6));  // tp, pp, pp.tied, to it, back, gather
  spec.model.sequence_length = 5;
  EXPECT_EQ(sends(), 16);
  EXPECT_THAT(GroupsOf(spec, 1), testing::SizeIs(5));
}

}  // namespace
}  // namespace stretto
