// SPDX-License-Identifier: Apache-2.0

// Stages that differ in layers, in TP size and in replicas: their ranks, their groups, and what
// moves between them.

#include "worker/engine/layout/transfers.h"

#include <map>
#include <set>
#include <string>
#include <utility>
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

// Stages of these TP sizes, of one layer each but the first, which has two. A share has a slice of
// one sequence and one of two.
EngineSpec Unlike(const std::vector<int>& tp_sizes, int dp_size = 1,
                  const std::vector<int>& dp_sizes = {}) {
  EngineSpec spec;
  for (int tp_size : tp_sizes) spec.stages.push_back({.layers = 1, .tp_size = tp_size});
  for (size_t i = 0; i < dp_sizes.size(); ++i) spec.stages[i].dp_size = dp_sizes[i];
  spec.stages[0].layers = 2;
  spec.model.layers = static_cast<int>(tp_sizes.size()) + 1;
  spec.model.tied_head = false;
  spec.model.hidden = 6;
  spec.model.sequence_length = 12;
  spec.pp_size = static_cast<int>(tp_sizes.size());
  spec.dp_size = dp_size;
  spec.micro_batch_size = 3;
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

TEST(UnlikeReplicasTest, HaveTheirOwnRanksAndSequences) {
  const EngineSpec spec = Unlike({2, 4, 1}, 6, {3, 2, 0});
  EXPECT_EQ(spec.world_size(), 3 * 2 + 2 * 4 + 6);
  for (Rank rank : IdRange<Rank>(spec.world_size()))
    EXPECT_EQ(RankAt(spec, PlaceOf(spec, rank)), rank);
  EXPECT_EQ(RankAt(spec, {.stage = 1, .replica = 1, .tp_rank = 3}), Rank(13));
  EXPECT_EQ(PlaceOf(spec, 19).replica, 5);
  EXPECT_EQ(SharesOf(spec, 0), 2);
  EXPECT_EQ(SequencesOf(spec, 1), 9);
  EXPECT_THAT(SlicesOf(spec, 1), ElementsAre(3, 6));
  EXPECT_THAT(SlicesOf(spec, 2), ElementsAre(1, 2));
  EXPECT_FALSE(ReplicasAreEqual(spec));
  EXPECT_TRUE(ReplicasAreEqual(Unlike({2, 4}, 6, {0, 6})));
}

// Replica 0 of the second stage has the rows of two replicas of the first.
TEST(UnlikeReplicasTest, AGroupOfSeveralStagesHasAllReplicas) {
  EngineSpec spec = Unlike({1, 2}, 2, {2, 1});
  spec.schedule.transfer = Transfer::kSend;
  EXPECT_THAT(NamesOf(spec, 1), ElementsAre("tp 1", "pp 0,1,2,3", "pp.0-1.1-2 1,2",
                                            "pp.0-1.1-3 1,3", "pp.1-0.3-1 3,1", "dp 0,1"));
  EXPECT_THAT(NamesOf(spec, 2),
              ElementsAre("tp 2,3", "pp 0,1,2,3", "pp.0-1 0,2", "pp.0-1.1-2 1,2", "pp.1-0 2,0"));
  spec.model.tied_head = true;
  EXPECT_THAT(NamesOf(spec, 0), Contains("pp.tied 0,1,2"));
  EXPECT_THAT(NamesOf(spec, 3), Contains("pp.tied.0-3 0,1,3"));
}

// Each replica that a sender serves gets its rows from other ranks of it.
TEST(UnlikeReplicasTest, SendersTakeTurnsOverReplicas) {
  EngineSpec spec = Unlike({4, 2}, 2, {1, 2});
  spec.schedule.transfer = Transfer::kSend;
  EXPECT_THAT(NamesOf(spec, 4), Contains("pp.0-1 0,4"));
  EXPECT_THAT(NamesOf(spec, 6), Contains("pp.0-1.2-6 2,6"));
  EXPECT_THAT(NamesOf(spec, 7), Contains("pp.0-1.3-7 3,7"));
}

// Two stages, with and without sequence parallelism: of 1 to 4 ranks each, and of as many replicas
// or, with ranks that are not too many, of other numbers of them.
template <class Visit>
void ForEachPair(Visit visit) {
  std::vector<EngineSpec> specs;
  for (int from = 1; from <= 4; ++from) {
    for (int to = 1; to <= 4; ++to) {
      specs.push_back(Unlike({from, to}, 2));
      for (const std::vector<int>& replicas :
           {std::vector<int>{1, 2}, {2, 1}, {2, 3}, {3, 2}, {6, 1}}) {
        if (from * replicas[0] + to * replicas[1] <= 12)
          specs.push_back(Unlike({from, to}, 6, replicas));
      }
    }
  }
  for (EngineSpec& spec : specs) {
    for (Transfer transfer : kTransfers) {
      for (bool sequence_parallel : {false, true}) {
        spec.model.tied_head = true;
        spec.schedule.transfer = transfer;
        spec.schedule.sequence_parallel = sequence_parallel;
        SCOPED_TRACE(absl::StrCat(TpSizeOf(spec, 0), " x ", ReplicasOf(spec, 0), " to ",
                                  TpSizeOf(spec, 1), " x ", ReplicasOf(spec, 1), ", ",
                                  NameOf(transfer), ", sp ", sequence_parallel));
        visit(spec);
      }
    }
  }
}

TEST(UnlikeStagesTest, MembersAgreeOnTheirGroups) {
  ForEachPair([](const EngineSpec& spec) {
    IdVector<Rank, IdVector<GroupId, Group>> groups;
    for (Rank rank : IdRange<Rank>(spec.world_size())) groups.push_back(GroupsOf(spec, rank));
    for (Rank rank : groups.ids()) {
      std::set<std::string> names;
      for (const Group& group : groups[rank]) {
        EXPECT_TRUE(names.insert(group.name).second) << group.name;
        EXPECT_THAT(group.ranks, Contains(rank));
        for (Rank member : group.ranks) EXPECT_THAT(groups[member], Contains(group));
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

constexpr Boundary kBoundaries[] = {{.from = 0, .to = 1}, {.from = 1, .to = 0}};

TEST(TransferPlanTest, GivesEachReceiverItsRowsOnce) {
  ForEachPair([](const EngineSpec& spec) {
    for (const Boundary& boundary : kBoundaries) {
      const bool all =
          spec.schedule.transfer == Transfer::kSend ||
          (spec.schedule.transfer == Transfer::kAuto && TpSizeOf(spec, 0) == TpSizeOf(spec, 1));
      const int receivers = TpSizeOf(spec, boundary.to);
      for (int replica = 0; replica < ReplicasOf(spec, boundary.to); ++replica) {
        // What the slices of the replica get, one row behind the other.
        int64_t row = int64_t{replica} * SequencesOf(spec, boundary.to) * 12;
        for (const CommonRows& rows :
             CommonRowsOf(spec, boundary, {.stage = boundary.to, .replica = replica})) {
          EXPECT_EQ(rows.begin, row);
          row = rows.end;
          const Resharding plan = TransferPlan(spec, boundary, rows);
          EXPECT_EQ(CheckResharding(plan, RowsOf(spec, boundary.from, rows.from, rows),
                                    RowsOf(spec, boundary.to, rows.to, rows)),
                    absl::OkStatus());
          EXPECT_EQ(CopiesOf(spec, boundary, plan, rows.end - rows.begin),
                    all && !spec.schedule.sequence_parallel ? receivers : 1);
        }
        EXPECT_EQ(row, int64_t{replica + 1} * SequencesOf(spec, boundary.to) * 12);
      }
    }
  });
}

using Numbers = std::vector<int64_t>;

// Both ends of a pair of replicas have the same common rows in the same order.
TEST(CommonRowsTest, AreTheSameAtBothEnds) {
  ForEachPair([](const EngineSpec& spec) {
    for (const Boundary& boundary : kBoundaries) {
      std::map<std::pair<int, int>, std::vector<Numbers>> ends[2];  // by pair of replicas
      for (int stage : {0, 1}) {
        for (int replica = 0; replica < ReplicasOf(spec, stage); ++replica) {
          for (const CommonRows& rows :
               CommonRowsOf(spec, boundary, {.stage = stage, .replica = replica})) {
            ends[stage][{rows.from.replica, rows.to.replica}].push_back(
                {rows.from.slice, rows.to.slice, rows.begin, rows.end});
          }
        }
      }
      EXPECT_EQ(ends[0], ends[1]);
    }
  });
}

// A share has rows 0 to 12 and 12 to 36; two of them, 0 to 24 and 24 to 72.
TEST(CommonRowsTest, AreThoseOfASliceOfEachStage) {
  const EngineSpec spec = Unlike({1, 1}, 2, {2, 1});
  std::vector<Numbers> found;
  for (const CommonRows& rows : CommonRowsOf(spec, {.from = 0, .to = 1}, {.stage = 1}))
    found.push_back({rows.from.replica, rows.from.slice, rows.to.slice, rows.begin, rows.end});
  EXPECT_THAT(found, ElementsAre(Numbers{0, 0, 0, 0, 12}, Numbers{0, 1, 0, 12, 24},
                                 Numbers{0, 1, 1, 24, 36}, Numbers{1, 0, 1, 36, 48},
                                 Numbers{1, 1, 1, 48, 72}));
}

TEST(TransferKindTest, IsThatOfRanksThatSendAndReceiveAlike) {
  const auto kind = [](const EngineSpec& spec, int stage, int replica, int tp_rank) {
    return TransferKindOf(spec,
                          {.stage = stage, .replica = replica, .tp_rank = GroupRank::Of(tp_rank)});
  };
  EngineSpec alike = Unlike({2, 2}, 2);
  EXPECT_EQ(kind(alike, 0, 1, 1), "");
  alike.schedule.transfer = Transfer::kChain;
  EXPECT_EQ(kind(alike, 1, 0, 0), kind(alike, 1, 1, 0));
  EXPECT_NE(kind(alike, 1, 0, 0), kind(alike, 1, 0, 1));
  alike.schedule.transfer = Transfer::kGather;
  EXPECT_EQ(kind(alike, 1, 0, 1), "");
  const EngineSpec unlike = Unlike({1, 1}, 4, {4, 2});
  EXPECT_NE(kind(unlike, 0, 0, 0), kind(unlike, 0, 1, 0));
  EXPECT_EQ(kind(unlike, 0, 0, 0), kind(unlike, 0, 2, 0));
  EXPECT_EQ(kind(unlike, 1, 0, 0), kind(unlike, 1, 1, 0));
}

// No rank sends all parts of what several have.
TEST(TransferPlanTest, SendersTakeTurns) {
  EngineSpec spec = Unlike({2, 4});
  spec.schedule.transfer = Transfer::kGather;
  std::vector<int> senders;
  for (const Step& step : TransferPlan(spec, {.from = 0, .to = 1}, {.begin = 0, .end = 12}).steps) {
    if (step.kind == Step::Kind::kChain) senders.push_back(step.ranks[0].value());
  }
  EXPECT_THAT(senders, ElementsAre(0, 1, 0, 1));
}

}  // namespace
}  // namespace stretto
