// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/layout/layout.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/program/text.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

EngineSpec SpecOf(int tp_size, int dp_size, int pp_size = 1) {
  EngineSpec spec;
  spec.model.layers = 7;
  spec.model.tied_head = false;
  spec.model.hidden = 4;
  spec.model.sequence_length = 8;
  spec.schedule.slices = {1};
  spec.pp_size = pp_size;
  spec.tp_size = tp_size;
  spec.dp_size = dp_size;
  return spec;
}

TEST(LayoutTest, RanksOfAReplicaAreAdjacent) {
  const EngineSpec spec = SpecOf(2, 3);
  EXPECT_EQ(spec.world_size(), 6);
  EXPECT_EQ(PlaceOf(spec, 0).replica, 0);
  EXPECT_EQ(PlaceOf(spec, 3).replica, 1);
  EXPECT_EQ(PlaceOf(spec, 3).tp_rank, GroupRank(1));
}

TEST(LayoutTest, GroupsAreTheRowAndTheColumnOfARank) {
  const auto groups = GroupsOf(SpecOf(2, 3), 3);
  ASSERT_THAT(groups, SizeIs(2));
  EXPECT_EQ(groups[kTpGroup].name, "tp");
  EXPECT_THAT(groups[kTpGroup].ranks, ElementsAre(Rank(2), Rank(3)));
  EXPECT_EQ(groups[1].name, "dp");
  EXPECT_THAT(groups[1].ranks, ElementsAre(Rank(1), Rank(3), Rank(5)));
}

TEST(LayoutTest, OneReplicaHasTheGroupOfItsShardsAlone) {
  const auto groups = GroupsOf(SpecOf(4, 1), 2);
  ASSERT_THAT(groups, SizeIs(1));
  EXPECT_THAT(groups[kTpGroup].ranks, SizeIs(4));
}

TEST(LayoutTest, StagesAreTheSlowestAxis) {
  const EngineSpec spec = SpecOf(2, 2, 3);
  EXPECT_EQ(spec.world_size(), 12);
  for (Rank rank : IdRange<Rank>(12)) EXPECT_EQ(RankAt(spec, PlaceOf(spec, rank)), rank);
  const Place place = PlaceOf(spec, 7);
  EXPECT_EQ(place.stage, 1);
  EXPECT_EQ(place.replica, 1);
  EXPECT_EQ(place.tp_rank, GroupRank(1));
}

TEST(LayoutTest, StagesShareTheLayersInOrder) {
  const EngineSpec spec = SpecOf(1, 1, 3);
  std::vector<std::pair<int, int>> layers;
  for (int stage = 0; stage < 3; ++stage) {
    const Chunk of = ChunksOf(spec, stage).at(0);
    layers.emplace_back(of.first_layer, of.end_layer);
    EXPECT_EQ(of.embeds, stage == 0);
    EXPECT_EQ(of.predicts, stage == 2);
  }
  EXPECT_THAT(layers, ElementsAre(std::pair{0, 3}, std::pair{3, 5}, std::pair{5, 7}));
}

TEST(LayoutTest, ChunksGoAroundTheStages) {
  EngineSpec spec = SpecOf(1, 1, 2);
  spec.chunks_per_stage = 2;
  std::vector<std::pair<int, int>> layers;
  for (int stage = 0; stage < 2; ++stage) {
    const std::vector<Chunk> chunks = ChunksOf(spec, stage);
    ASSERT_THAT(chunks, SizeIs(2));
    for (const Chunk& chunk : chunks) layers.emplace_back(chunk.first_layer, chunk.end_layer);
    EXPECT_EQ(chunks[0].embeds, stage == 0);
    EXPECT_EQ(chunks[1].predicts, stage == 1);
    EXPECT_FALSE(chunks[1].embeds || chunks[0].predicts);
  }
  // The first three of four chunks have one more of seven layers.
  EXPECT_THAT(layers,
              ElementsAre(std::pair{0, 2}, std::pair{4, 6}, std::pair{2, 4}, std::pair{6, 7}));
}

EngineSpec FoldedOver(int stages, int tp_size = 1, int dp_size = 1) {
  EngineSpec spec = SpecOf(tp_size, dp_size, stages);
  spec.model.layers = 2 * stages;
  spec.chunks_per_stage = 2;
  spec.schedule.name = "helix";
  spec.schedule.pipeline = "folded";
  return spec;
}

TEST(LayoutTest, FoldedChunksGoDownTheStagesAndBackUp) {
  const EngineSpec spec = FoldedOver(3);
  std::vector<std::pair<int, int>> layers;
  for (int stage = 0; stage < 3; ++stage) {
    const std::vector<Chunk> chunks = ChunksOf(spec, stage);
    ASSERT_THAT(chunks, SizeIs(2));
    layers.emplace_back(chunks[0].first_layer, chunks[1].first_layer);
    EXPECT_EQ(chunks[0].embeds, stage == 0);
    EXPECT_EQ(chunks[1].predicts, stage == 0);
  }
  EXPECT_THAT(layers, ElementsAre(std::pair{0, 5}, std::pair{1, 4}, std::pair{2, 3}));
  EXPECT_EQ(HeadStageOf(spec), 0);
  EXPECT_EQ(HeadStageOf(SpecOf(1, 1, 3)), 2);
}

// "NAME RANKS"
std::vector<std::string> NamesOf(const IdVector<GroupId, Group>& groups) {
  std::vector<std::string> names;
  for (const Group& group : groups) names.push_back(group.name + " " + PrintRanks(group.ranks));
  return names;
}

TEST(LayoutTest, AStageHasAGroupForEachNeighbourAndDirection) {
  EngineSpec spec = SpecOf(2, 1, 3);
  EXPECT_THAT(NamesOf(GroupsOf(spec, 3)), ElementsAre("tp 2,3", "pp 1,3,5", "pp.0-1 1,3",
                                                      "pp.1-0 3,1", "pp.1-2 3,5", "pp.2-1 5,3"));
  EXPECT_THAT(NamesOf(GroupsOf(spec, 4)),
              ElementsAre("tp 4,5", "pp 0,2,4", "pp.1-2 2,4", "pp.2-1 4,2"));
  spec.model.tied_head = true;
  EXPECT_THAT(NamesOf(GroupsOf(spec, 0)),
              ElementsAre("tp 0,1", "pp 0,2,4", "pp.tied 0,4", "pp.0-1 0,2", "pp.1-0 2,0"));
  EXPECT_EQ(FindGroup(GroupsOf(spec, 2), kTiedGroupName), GroupId(-1));
  spec.chunks_per_stage = 2;
  EXPECT_THAT(NamesOf(GroupsOf(spec, 0)),
              ElementsAre("tp 0,1", "pp 0,2,4", "pp.tied 0,4", "pp.0-1 0,2", "pp.1-0 2,0",
                          "pp.wrap.2-0 4,0", "pp.wrap.0-2 0,4"));
  EXPECT_EQ(FindGroup(GroupsOf(spec, 2), TransferGroupName(2, 0, true)), GroupId(-1));
  EXPECT_EQ(GroupsOf(spec, 0)[2].axis(), "pp");
}

// The way down and the way up have channels of their own, in each direction. Tied ends are on one
// stage.
TEST(LayoutTest, FoldedStagesHaveTwoGroupsForEachNeighbourAndDirection) {
  EngineSpec spec = FoldedOver(3);
  spec.model.tied_head = true;
  EXPECT_THAT(NamesOf(GroupsOf(spec, 0)),
              ElementsAre("tp 0", "pp 0,1,2", "pp.0-1 0,1", "pp.1-0 1,0", "pp.wrap.1-0 1,0",
                          "pp.wrap.0-1 0,1"));
  EXPECT_THAT(NamesOf(GroupsOf(spec, 2)),
              ElementsAre("tp 2", "pp 0,1,2", "pp.1-2 1,2", "pp.2-1 2,1", "pp.wrap.2-1 2,1",
                          "pp.wrap.1-2 1,2"));
}

// Every rank is in each of its groups, and all members name the same ones.
TEST(LayoutTest, MembersAgreeOnTheirGroups) {
  EngineSpec around = SpecOf(4, 2, 3), folded = FoldedOver(3, 4, 2);
  around.model.tied_head = folded.model.tied_head = true;
  around.chunks_per_stage = 2;
  for (const EngineSpec& spec : {around, folded}) {
    for (Rank rank : IdRange<Rank>(spec.world_size())) {
      for (const Group& group : GroupsOf(spec, rank)) {
        EXPECT_THAT(group.ranks, testing::Contains(rank));
        for (Rank member : group.ranks) {
          EXPECT_THAT(GroupsOf(spec, member), testing::Contains(group));
        }
      }
    }
  }
}

}  // namespace
}  // namespace stretto
