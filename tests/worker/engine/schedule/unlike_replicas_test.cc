// SPDX-License-Identifier: Apache-2.0

// Programs of stages that differ in replicas.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/random.h"
#include "tests/worker/engine/delete_waits.h"
#include "tests/worker/engine/program/expect_rejected.h"
#include "tests/worker/engine/specs.h"
#include "tests/worker/engine/stage_programs.h"
#include "worker/engine/layout/layout.h"
#include "worker/engine/program/verify.h"

namespace stretto {
namespace {

// Stages of these TP sizes and replicas, of a layer each.
Layout Unlike(int dp_size, const std::vector<std::pair<int, int>>& meshes,
              Transfer transfer = Transfer::kAuto) {
  Layout layout{.schedule = "domino_row",
                .dp_size = dp_size,
                .pp_size = static_cast<int>(meshes.size()),
                .transfer = transfer,
                .slices = {1, 1},
                .micro_batches = 4,
                .layers = static_cast<int>(meshes.size())};
  for (const auto& [tp_size, replicas] : meshes)
    layout.stages.push_back({.layers = 1, .tp_size = tp_size, .dp_size = replicas});
  return layout;
}

TEST(UnlikeReplicasPlanTest, AllRanksVerifyTogetherInEveryVariant) {
  for (Transfer transfer : kTransfers) {
    for (const Layout& meshes :
         {Unlike(2, {{1, 2}, {2, 1}}, transfer), Unlike(2, {{2, 1}, {1, 2}, {2, 1}}, transfer),
          Unlike(6, {{1, 2}, {1, 3}}, transfer)}) {
      for (const char* schedule : {"megatron_sync", "domino_row"}) {
        for (const char* order : {"1f1b", "eager_1f1b", "gpipe", "1f1b_blocking"}) {
          Layout layout = meshes;
          layout.schedule = schedule;
          if (layout.schedule == "megatron_sync") layout.slices = {2};
          layout.pipeline = order;
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

// A layout that a seed draws, of at most 16 ranks.
Layout Drawn(uint64_t seed) {
  uint64_t draws = 0;
  const auto draw = [&](auto values) {
    return *(values.begin() + Philox(seed, draws++, 0)[0] % values.size());
  };
  using List = std::initializer_list<int>;
  const int dp_size = draw(List{2, 3, 4, 6}), stages = draw(List{2, 2, 3, 4});
  std::vector<std::pair<int, int>> meshes;
  int ranks = 0;
  for (int stage = 0; stage < stages; ++stage) {
    std::pair<int, int> mesh(1, 1);
    do {
      mesh = {draw(List{1, 1, 2, 4}), draw(List{1, 2, 3, 4, 6})};
    } while (dp_size % mesh.second != 0 ||
             ranks + mesh.first * mesh.second + stages - stage - 1 > 16);
    ranks += mesh.first * mesh.second;
    meshes.push_back(mesh);
  }
  Layout layout = Unlike(
      dp_size, meshes,
      draw(std::initializer_list<Transfer>{Transfer::kAuto, Transfer::kChain, Transfer::kGather}));
  layout.zero = draw(List{0, 1});
  layout.schedule = draw(std::initializer_list<const char*>{"megatron_sync", "domino_row"});
  layout.slices = {4};
  if (layout.schedule == "domino_row")
    layout.slices = draw(std::initializer_list<std::vector<int>>{{1, 1}, {1, 2}, {2, 1, 1}});
  layout.pipeline = draw(std::initializer_list<const char*>{"1f1b", "eager_1f1b", "gpipe"});
  layout.wgrad_delay = static_cast<WgradDelay>(draw(List{0, 1, 2}));
  layout.sequence_parallel = draw(List{0, 1}) == 1;
  layout.recompute = static_cast<Recompute>(draw(List{0, 1, 2}));
  layout.micro_batches = draw(List{1, 3, 6});
  return layout;
}

TEST(UnlikeReplicasPlanTest, DrawnLayoutsVerifyTogether) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Layout layout = Drawn(seed);
    const auto plans = BuildPlans(SpecOf(layout));
    EXPECT_TRUE(plans.ok()) << Describe(layout) << ": " << plans.status();
  }
}

TEST(UnlikeReplicasPlanTest, EveryWaitIsNeededOrRedundant) {
  for (int zero : {0, 1}) {
    Layout layout = Unlike(2, {{1, 2}, {2, 1}}, Transfer::kGather);
    layout.zero = zero;
    for (Rank rank : {Rank::Of(1), Rank::Of(2)}) {
      const RankPlan plan = PlanOf(SpecOf(layout), rank);
      EXPECT_GT(ExpectEveryWaitNeededOrRedundant(plan.program, plan.arenas).needed, 0);
    }
  }
}

// A sequence is [4, 8] f32: 128 bytes; a replica of two has two of each of four micro-batches, and
// one replica alone has four.
TEST(UnlikeReplicasPlanTest, BytesOfALinkAreThoseOfThePlan) {
  constexpr int64_t kAll = 8 * int64_t{128};
  const std::vector<Program> merges = ProgramsOf(Unlike(2, {{1, 2}, {2, 1}}, Transfer::kSend));
  EXPECT_EQ(SentBytes(merges[0], "pp.0-1"), kAll);
  EXPECT_EQ(SentBytes(merges[0], "pp.0-1.0-3"), kAll);
  EXPECT_EQ(SentBytes(merges[1], "pp.0-1.1-2"), kAll);
  EXPECT_EQ(SentBytes(merges[2], "pp.1-0"), kAll);
  EXPECT_EQ(SentBytes(merges[2], "pp.1-0.2-1"), 0);
  EXPECT_EQ(SentBytes(merges[3], "pp.1-0.3-1"), kAll);
  Layout rows = Unlike(2, {{2, 1}, {1, 2}});
  rows.sequence_parallel = true;
  const std::vector<Program> deals = ProgramsOf(rows);
  EXPECT_EQ(SentBytes(deals[0], "pp.0-1"), kAll / 2);
  EXPECT_EQ(SentBytes(deals[0], "pp.0-1.0-3"), kAll / 2);
}

// Gradients of the first stage are added up over its two replicas, and those of the second nowhere;
// the tied embedding's over all ranks at once.
TEST(UnlikeReplicasPlanTest, GradientsAreSumsOverTheReplicasOfTheStage) {
  for (int zero : {0, 1}) {
    Layout layout = Unlike(2, {{1, 2}, {1, 1}});
    layout.zero = zero;
    const auto sums = [&](Rank rank, absl::string_view group) {
      const Program program = PlanOf(SpecOf(layout), rank).program;
      std::vector<std::string> names;
      for (const Op& op : program.ops) {
        const bool adds = op.kind == OpKind::kAllReduce || op.kind == OpKind::kReduceScatter;
        if (adds && program.groups[op.group].name == group) names.push_back(op.tag.name);
      }
      return names;
    };
    using ::testing::UnorderedElementsAre;
    EXPECT_THAT(sums(0, "dp"), UnorderedElementsAre("layers.0.attention", "layers.0.mlp",
                                                    "embedding.position.weight"));
    EXPECT_EQ(FindGroup(GroupsOf(SpecOf(layout), 2), kDpGroupName), GroupId(-1));
    for (Rank rank : {Rank::Of(1), Rank::Of(2)}) {
      EXPECT_THAT(sums(rank, "pp.tied"), UnorderedElementsAre("embedding.token.weight"));
      EXPECT_THAT(sums(rank, "pp"), UnorderedElementsAre("grad_norm"));
    }
  }
}

// A part of the norm is a number of one rank, and zero on all others.
TEST(UnlikeReplicasPlanTest, EachPartOfTheNormCountsOnce) {
  for (int zero : {0, 1}) {
    Layout layout = Unlike(2, {{1, 2}, {1, 1}});
    layout.zero = zero;
    const EngineSpec spec = SpecOf(layout);
    std::vector<int> ranks_of;  // each part
    for (Rank rank : IdRange<Rank>(spec.world_size())) {
      const Program program = PlanOf(spec, rank).program;
      for (const Op& op : program.ops) {
        if (op.kind != OpKind::kSumSquares) continue;
        const Root part = RootOf(program.buffers, op.out[0]);
        ranks_of.resize(static_cast<size_t>(program.buffers[part.buffer].count()));
        ++ranks_of[static_cast<size_t>(part.element)];
      }
    }
    EXPECT_THAT(ranks_of, testing::Each(1)) << zero;
  }
}

TEST(UnlikeReplicasFaultTest, AReplicaThatDoesNotSendIsADeadlock) {
  std::vector<Program> programs = ProgramsOf(Unlike(2, {{1, 2}, {1, 1}}));
  Op& op = programs[1].ops[Find(programs[1], OpKind::kSend, "pp.0-1.1-2", 3)];
  op.kind = OpKind::kZero;
  op.out = std::exchange(op.in, {});
  op.lane = 0;
  op.group = -1;
  op.attributes.clear();
  ExpectRejected(VerifyRanks(programs), "deadlock: nothing can proceed");
}

TEST(UnlikeReplicasFaultTest, RowsOfAnotherMicroBatchAreRejected) {
  std::vector<Program> programs = ProgramsOf(Unlike(2, {{1, 2}, {1, 1}}));
  const OpId a = Find(programs[2], OpKind::kRecv, "pp.0-1.1-2", 1);
  const OpId b = Find(programs[2], OpKind::kRecv, "pp.0-1.1-2", 2);
  std::swap(programs[2].ops[a].tag.micro_batch, programs[2].ops[b].tag.micro_batch);
  ExpectRejected(VerifyRanks(programs), "collectives differ");
}

// Half of the stream would keep what it had.
TEST(UnlikeReplicasFaultTest, RowsOfTwoReplicasThatLandInOnePlaceAreRejected) {
  Program program = ProgramsOf(Unlike(2, {{1, 2}, {1, 1}}))[2];
  const OpId lost = Find(program, OpKind::kRecv, "pp.0-1.1-2", 0);
  program.ops[lost].out = program.ops[Find(program, OpKind::kRecv, "pp.0-1", 0)].out;
  ExpectRejected(Verify(program), "race: 18 comm.pp.0-1.1-2 recv L1.x fwd mb0 s1 ");
}

// A rank that takes the replicas of a stage for others than the job's.
TEST(UnlikeReplicasFaultTest, RanksThatPlanOtherReplicasAreRejected) {
  std::vector<Program> programs = ProgramsOf(Unlike(2, {{1, 2}, {1, 1}}));
  programs[2] = ProgramsOf(Unlike(1, {{1, 1}, {1, 1}, {1, 1}}))[2];
  ExpectRejected(VerifyRanks(programs),
                 "rank 2: found none in group pp.0-1, expected 0,2, as on rank 0");
}

}  // namespace
}  // namespace stretto
