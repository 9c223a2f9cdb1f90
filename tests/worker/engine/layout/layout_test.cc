// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/layout/layout.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

EngineSpec SpecOf(int tp_size, int dp_size) {
  EngineSpec spec;
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
  EXPECT_EQ(groups[kDpGroup].name, "dp");
  EXPECT_THAT(groups[kDpGroup].ranks, ElementsAre(Rank(1), Rank(3), Rank(5)));
}

TEST(LayoutTest, OneReplicaHasTheGroupOfItsShardsAlone) {
  const auto groups = GroupsOf(SpecOf(4, 1), 2);
  ASSERT_THAT(groups, SizeIs(1));
  EXPECT_THAT(groups[kTpGroup].ranks, SizeIs(4));
}

// Every rank is in each of its groups, and all members name the same ones.
TEST(LayoutTest, MembersAgreeOnTheirGroups) {
  const EngineSpec spec = SpecOf(4, 2);
  for (Rank rank : IdRange<Rank>(spec.world_size())) {
    for (const Group& group : GroupsOf(spec, rank)) {
      EXPECT_THAT(group.ranks, testing::Contains(rank));
      for (Rank member : group.ranks) {
        EXPECT_THAT(GroupsOf(spec, member), testing::Contains(group));
      }
    }
  }
}

}  // namespace
}  // namespace stretto
