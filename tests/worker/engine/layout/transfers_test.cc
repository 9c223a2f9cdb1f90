// SPDX-License-Identifier: Apache-2.0

// Stages that differ in layers and in TP size: their ranks, their groups, and what moves between
// them.

#include "worker/engine/layout/transfers.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/layout/layout.h"
#include "worker/engine/program/text.h"

namespace stretto {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

constexpr Transfer kTransfers[] = {Transfer::kAuto, Transfer::kSend, Transfer::kChain,
                                   Transfer::kGather};

// Stages of these TP sizes, of one layer each but the first, which has two.
EngineSpec Unlike(const std::vector<int>& tp_sizes, int dp_size = 1) {
  EngineSpec spec;
  for (int tp_size : tp_sizes) spec.stages.push_back({.layers = 1, .tp_size = tp_size});
  spec.stages[0].layers = 2;
  spec.model.layers = static_cast<int>(tp_sizes.size()) + 1;
  spec.model.tied_head = false;
  spec.model.hidden = 6;
  spec.model.sequence_length = 12;
  spec.pp_size = static_cast<int>(tp_sizes.size());
  spec.dp_size = dp_size;
  spec.schedule.slices = {1, 2};
  return spec;
}

std::vector<std::string> NamesOf(const EngineSpec& spec, Rank rank) {
  std::vector<std::string> names;
  for (const Group& group : GroupsOf(spec, rank))
    names.push_back(group.name + " " + PrintRanks(group.ranks));
  return names;
}

TEST(UnlikeStagesTest, HaveTheirOwnLayersAndRanks) {
  const EngineSpec spec = Unlike({4, 2, 1}, 2);
  EXPECT_EQ(spec.world_size(), 14);
  for (Rank rank : IdRange<Rank>(14)) EXPECT_EQ(RankAt(spec, PlaceOf(spec, rank)), rank);
  EXPECT_EQ(RankAt(spec, {.stage = 1, .replica = 1, .tp_rank = 1}), Rank(11));
  EXPECT_EQ(PlaceOf(spec, 12).stage, 2);
  EXPECT_EQ(ChunksOf(spec, 0).front().end_layer, 2);
  EXPECT_EQ(ChunksOf(spec, 2).front().first_layer, 3);
  EXPECT_EQ(ChunksOf(spec, 2).front().end_layer, 4);
}

TEST(UnlikeStagesTest, EachReceiverHasASenderOfItsOwnWhileThereAreEnough) {
  EngineSpec spec = Unlike({2, 3});
  spec.schedule.transfer = Transfer::kSend;
  EXPECT_THAT(NamesOf(spec, 0),
              ElementsAre("tp 0,1", "pp 0,1,2,3,4", "pp.0-1 0,2", "pp.0-1.0-4 0,4", "pp.1-0 2,0"));
  EXPECT_THAT(NamesOf(spec, 4), ElementsAre("tp 2,3,4", "pp 0,1,2,3,4", "pp.0-1.0-4 0,4"));
}

TEST(UnlikeStagesTest, AGatherIsAGroupOfTheReceivers) {
  EngineSpec spec = Unlike({1, 2}, 2);
  spec.schedule.transfer = Transfer::kGather;
  EXPECT_THAT(NamesOf(spec, 5),
              ElementsAre("tp 4,5", "pp 1,4,5", "pp.0-1.1-5 1,5", "pp.0-1.4-5 4,5", "dp 3,5"));
}

TEST(UnlikeStagesTest, AChainVisitsAllReceivers) {
  EngineSpec spec = Unlike({2, 2});
  spec.schedule.transfer = Transfer::kChain;
  EXPECT_THAT(NamesOf(spec, 3), ElementsAre("tp 2,3", "pp 1,3", "pp.0-1.0-2-3 0,2,3"));
  EXPECT_FALSE(RanksAreAlike(spec, 1));
  spec.schedule.transfer = Transfer::kGather;
  EXPECT_TRUE(RanksAreAlike(spec, 1));
}

// What devices may register is at equal offsets on all members.
TEST(UnlikeStagesTest, ReplicasAreAlikeAndTheRanksOfAnUnlikeStageAreNot) {
  const auto alike = [](const EngineSpec& spec, Rank rank) {
    std::vector<std::string> names;
    for (const Group& group : GroupsOf(spec, rank)) {
      if (MembersAreAlike(spec, rank, group)) names.push_back(group.name);
    }
    return names;
  };
  EXPECT_THAT(alike(Unlike({1, 2}, 2), 5), ElementsAre("dp"));
  EXPECT_THAT(alike(Unlike({2, 2}, 2), 5), ElementsAre("tp", "dp"));
}

TEST(UnlikeStagesTest, ATiedEmbeddingIsSharedByThoseWithCommonRows) {
  EngineSpec spec = Unlike({4, 2});
  spec.model.tied_head = true;
  const auto tied = [&](Rank rank) {
    std::vector<std::string> names;
    for (const std::string& name : NamesOf(spec, rank)) {
      if (name.starts_with(kTiedGroupName)) names.push_back(name);
    }
    return names;
  };
  EXPECT_THAT(tied(1), ElementsAre("pp.tied.1-4 1,4"));
  EXPECT_THAT(tied(4), ElementsAre("pp.tied 0,4", "pp.tied.1-4 1,4"));
  EXPECT_THAT(tied(5), ElementsAre("pp.tied.2-5 2,5", "pp.tied.3-5 3,5"));
}

// Every layout of two stages of 1 to 4 ranks, with and without sequence parallelism.
template <class Visit>
void ForEachPair(Visit visit) {
  for (int from = 1; from <= 4; ++from) {
    for (int to = 1; to <= 4; ++to) {
      for (Transfer transfer : kTransfers) {
        for (bool sequence_parallel : {false, true}) {
          EngineSpec spec = Unlike({from, to}, 2);
          spec.model.tied_head = true;
          spec.schedule.transfer = transfer;
          spec.schedule.sequence_parallel = sequence_parallel;
          SCOPED_TRACE(
              absl::StrCat(from, " to ", to, ", ", NameOf(transfer), ", sp ", sequence_parallel));
          visit(spec);
        }
      }
    }
  }
}

TEST(UnlikeStagesTest, MembersAgreeOnTheirGroups) {
  ForEachPair([](const EngineSpec& spec) {
    for (Rank rank : IdRange<Rank>(spec.world_size())) {
      std::set<std::string> names;
      for (const Group& group : GroupsOf(spec, rank)) {
        EXPECT_TRUE(names.insert(group.name).second) << group.name;
        EXPECT_THAT(group.ranks, Contains(rank));
        for (Rank member : group.ranks) EXPECT_THAT(GroupsOf(spec, member), Contains(group));
      }
    }
  });
}

// The copies of the tensor that cross from one stage to the other.
double CopiesOf(const EngineSpec& spec, const Boundary& boundary, const Resharding& plan,
                int64_t rows) {
  double crossing = 0;
  for (const Step& step : plan.steps) {
    for (size_t i = 1; i < step.ranks.size(); ++i) {
      const int before = PlaceOf(spec, step.ranks[i - 1]).stage,
                after = PlaceOf(spec, step.ranks[i]).stage;
      if (before == boundary.from && after == boundary.to)
        crossing += static_cast<double>(VolumeOf(step.box));
    }
  }
  return crossing / static_cast<double>(rows * spec.model.hidden);
}

TEST(TransferPlanTest, GivesEachReceiverItsRowsOnce) {
  constexpr int64_t kRows = 24;
  ForEachPair([&](const EngineSpec& spec) {
    for (const Boundary& boundary :
         {Boundary{.from = 0, .to = 1, .replica = 1}, Boundary{.from = 1, .to = 0, .replica = 1}}) {
      const Tiling from = RowsOf(spec, boundary.from, 1, kRows),
                   to = RowsOf(spec, boundary.to, 1, kRows);
      const Resharding plan = TransferPlan(spec, boundary, kRows);
      EXPECT_EQ(CheckResharding(plan, from, to), absl::OkStatus());
      const bool all = spec.schedule.transfer == Transfer::kSend ||
                       (spec.schedule.transfer == Transfer::kAuto && TpSizesAreEqual(spec));
      const int receivers = TpSizeOf(spec, boundary.to);
      EXPECT_EQ(CopiesOf(spec, boundary, plan, kRows),
                all && !spec.schedule.sequence_parallel ? receivers : 1);
    }
  });
}

// No rank sends all parts of what several have.
TEST(TransferPlanTest, SendersTakeTurns) {
  EngineSpec spec = Unlike({2, 4});
  spec.schedule.transfer = Transfer::kGather;
  std::vector<int> senders;
  for (const Step& step : TransferPlan(spec, {.from = 0, .to = 1}, 8).steps) {
    if (step.kind == Step::Kind::kChain) senders.push_back(step.ranks[0].value());
  }
  EXPECT_THAT(senders, ElementsAre(0, 1, 0, 1));
}

}  // namespace
}  // namespace stretto
