// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "coordinator/core/hang.h"
#include "tests/coordinator/core/still_ranks.h"

namespace stretto::coordinator::testing {
namespace {

using ::testing::HasSubstr;

std::optional<Hang> Find(const std::vector<RankPosition>& positions) {
  std::set<int32_t> ranks;
  std::map<int32_t, RankPosition> by_rank;
  for (const RankPosition& position : positions) {
    by_rank[static_cast<int32_t>(ranks.size())] = position;
    ranks.insert(static_cast<int32_t>(ranks.size()));
  }
  return FindHang(ranks, by_rank, {});
}

struct Case {
  std::string name;
  std::vector<RankPosition> ranks;
  int32_t hangs = -1;  // -1: none
  std::string message = "";
};

class FindHangTest : public ::testing::TestWithParam<Case> {};

TEST_P(FindHangTest, NamesTheRank) {
  const std::optional<Hang> hang = Find(GetParam().ranks);
  ASSERT_EQ(hang.has_value(), GetParam().hangs >= 0) << (hang ? hang->message : "");
  if (!hang.has_value()) return;
  EXPECT_EQ(hang->rank, GetParam().hangs) << hang->message;
  EXPECT_EQ(hang->message, GetParam().message);
}

constexpr char kPlace[] = " in step 7, forward, at 17 compute gemm: ";

INSTANTIATE_TEST_SUITE_P(
    Table, FindHangTest,
    ::testing::Values(
        Case{"OneBehind",
             {Still({Receives("tp.0", 5, 1)}), Still({Done("tp.0", 4)})},
             1,
             absl::StrCat("hangs", kPlace,
                          "it has not moved for 21s and waits for no rank; rank 0 "
                          "waits for it in call 5 of group tp.0")},
        Case{"TooShort",
             {Still({Receives("tp.0", 5, 1)}), For(Still({Done("tp.0", 4)}), absl::Seconds(19))}},
        Case{"TheOnlyRank",
             {Still()},
             0,
             absl::StrCat("hangs", kPlace, "it has not moved for 21s and waits for no rank")},
        Case{"TheOnlyRankComputes", {With(Still(), Activity::kComputing)}},
        Case{"TheOnlyRankComputesForTooLong",
             {For(With(Still(), Activity::kComputing), absl::Minutes(11))},
             0,
             absl::StrCat("hangs", kPlace, "it has computed one operation for 660s")},
        Case{"TheOnlyRankWorks", {For(With(Still(), Activity::kWorking), absl::Hours(1))}},
        Case{"TheOnlyRankIsOverdue",
             {With(For(Still(), absl::Seconds(4)), Activity::kOverdue)},
             0,
             absl::StrCat("hangs", kPlace, "it takes longer than it has announced")},
        Case{"OthersWaitForOneThatWorks",
             {Still({Receives("control", 3, 1)}), With(Still(), Activity::kWorking)}},
        Case{"FrozenAtWork",
             {Still({Receives("control", 3, 1)}), Frozen(With(Still(), Activity::kWorking))},
             1,
             absl::StrCat("hangs", kPlace,
                          "its process has shown no sign of life for 21s; rank 0 "
                          "waits for it in call 3 of group control")},
        // Both are in the call; only the pulse tells which process stands still.
        Case{"FrozenInACall",
             {Still({Receives("tp.0", 5, 1)}), Frozen(Still({Receives("tp.0", 5, 0)}))},
             1,
             absl::StrCat("hangs", kPlace,
                          "its process has shown no sign of life for 21s; rank 0 "
                          "waits for it in call 5 of group tp.0")},
        Case{"FrozenTooShort",
             {Still({Receives("tp.0", 5, 1)}),
              Frozen(For(Still({Done("tp.0", 4)}), absl::Seconds(19)), absl::Seconds(19))}},
        Case{"TheFrozenRankThatIsLeastFar",
             {Frozen(Still()), Frozen(InStep(Still(), 6))},
             1,
             "hangs in step 6, forward, at 17 compute gemm: its process has shown no sign of life "
             "for 21s"},
        Case{"NeverAttached",
             {{.attached = false, .still = kLong}, With(Still(), Activity::kWorking)},
             0,
             "has not attached to its daemon 21s after its start"},
        Case{"NotYetAttached", {{.attached = false, .still = absl::Seconds(19)}, Still()}},
        // 0 waits for 1 in one group, 1 for 2 in another, and 2 for nobody.
        Case{"BehindTheOneThatIsBehind",
             {Still({Receives("tp.0", 5, 1)}), Still({Done("tp.0", 4), Receives("pp.1", 2, 2)}),
              Still({Done("pp.1", 1)})},
             2,
             absl::StrCat("hangs", kPlace,
                          "it has not moved for 21s and waits for no rank; rank 1 "
                          "waits for it in call 2 of group pp.1")},
        // 0 has left the call in which 1 waits for what 0 sent.
        Case{"CutOneWay",
             {Still({Receives("tp.0", 6, 1)}), Still({Receives("tp.0", 5, 0)})},
             1,
             absl::StrCat("waits", kPlace,
                          "it has received nothing from rank 0 for 21s in call 5 of group tp.0, "
                          "which that rank has begun: check the network between them")},
        Case{"CutBothWays",
             {Still({Receives("tp.0", 5, 1)}), Still({Receives("tp.0", 5, 0)})},
             0,
             absl::StrCat("waits", kPlace,
                          "it has received nothing from rank 1 for 21s in call 5 of group tp.0, "
                          "which that rank has begun: check the network between them; rank 1 has "
                          "received nothing from rank 0 either")},
        // 2 has what it needs of this exchange, and waits for the next part of one that is cut off.
        Case{"CutBetweenTwoOfThree",
             {Still({Receives("tp.0", 5, 1)}), Still({Sends("tp.0", 5, 0)}),
              Still({Receives("tp.0", 5, 1)})},
             0,
             absl::StrCat("waits", kPlace,
                          "it has received nothing from rank 1 for 21s in call 5 of group tp.0, "
                          "which that rank has begun: check the network between them; rank 1 could "
                          "not send to rank 0 either")}),
    [](const auto& info) { return info.param.name; });

// Calls of devices.
INSTANTIATE_TEST_SUITE_P(
    Devices, FindHangTest,
    ::testing::Values(
        Case{"OneBehindInACollective",
             {Still({In("tp.0", 277)}), Still({In("tp.0", 277)}), Still({Done("tp.0", 276)})},
             2,
             absl::StrCat("hangs", kPlace,
                          "it has not moved for 21s and waits for no rank; rank 0 waits for it in "
                          "call 277 of group tp.0, rank 1 waits for it in call 277 of group tp.0")},
        // 1 is one call behind, 2 is two.
        Case{"OfSeveralBehindTheLeastFar",
             {Still({In("dp.0", 9)}), Still({Done("dp.0", 8)}), Still({Done("dp.0", 7)})},
             2,
             absl::StrCat("hangs", kPlace,
                          "it has not moved for 21s and waits for no rank; rank 0 waits for it in "
                          "call 9 of group dp.0")},
        Case{
            "OfSeveralBehindTheOneInAnEarlierStep",
            {Still({In("dp.0", 9)}), Still({Done("dp.0", 8)}), InStep(Still({Done("dp.0", 8)}), 6)},
            2,
            "hangs in step 6, forward, at 17 compute gemm: it has not moved for 21s and waits for "
            "no rank; rank 0 waits for it in call 9 of group dp.0"},
        // 0 waits for 1 in tp.0, and 1 for 3 in dp.1; 2 is in tp.2, like 3 before it.
        Case{"BehindThroughTwoGroups",
             {Still({In("tp.0", 50), Done("dp.0", 4)}), Still({Done("tp.0", 49), In("dp.1", 5)}),
              Still({In("tp.2", 50), Done("dp.0", 4)}), Still({Done("tp.2", 49), Done("dp.1", 4)})},
             3,
             absl::StrCat("hangs", kPlace,
                          "it has not moved for 21s and waits for no rank; rank 1 waits for it in "
                          "call 5 of group dp.1, rank 2 waits for it in call 50 of group tp.2")},
        // Both of tp.0 are in the call; one of them also waits where somebody is behind.
        Case{"AWaitForOneBehindTellsMore",
             {Still({In("tp.0", 50)}), Still({In("tp.0", 50), In("dp.1", 5)}),
              Still({Done("dp.1", 4)})},
             2,
             absl::StrCat("hangs", kPlace,
                          "it has not moved for 21s and waits for no rank; rank 1 waits for it in "
                          "call 5 of group dp.1")},
        Case{"AllHaveBegun",
             {Still({In("tp.0", 277)}), Still({In("tp.0", 277)}), Still({In("tp.0", 277)})},
             0,
             absl::StrCat("waits", kPlace,
                          "all ranks of group tp.0 are in call 277 and none proceeds: check the "
                          "network between them")},
        // What a call brings 1 did not arrive, and it did reach 0, which waits for 1 in the next.
        Case{"SomeHaveEnded",
             {Still({In("tp.0", 278)}), Still({In("tp.0", 277)}), Still({In("tp.0", 278)})},
             1,
             absl::StrCat("waits", kPlace,
                          "all ranks of group tp.0 are in call 277 or have ended it, as rank 0, 2, "
                          "but it has not proceeded for 21s: check the network between them")},
        // Nothing keeps 1 from its next call but itself.
        Case{"OneHasEndedAndWaitsForNobody",
             {Still({In("tp.0", 277)}), Still({Done("tp.0", 277)})},
             1,
             absl::StrCat("hangs", kPlace, "it has not moved for 21s and waits for no rank")},
        // 0 receives from 1, which is in a collective that 2 has not begun.
        Case{"ATransferBehindACollective",
             {Still({Receives("pp.1-0.0", 3, 1)}), Still({Done("pp.1-0.0", 2), In("tp.1", 8)}),
              Still({Done("tp.1", 7)})},
             2,
             absl::StrCat("hangs", kPlace,
                          "it has not moved for 21s and waits for no rank; rank 1 waits for it in "
                          "call 8 of group tp.1")},
        // 0 and 1 are in a collective that 2 has not begun, and 2 sends to 3, which stands still.
        Case{"ACollectiveBehindATransfer",
             {Still({In("tp.0", 8)}), Still({In("tp.0", 8)}),
              Still({Done("tp.0", 7), Sends("pp.0-1.2", 3, 3)}), Still({Done("pp.0-1.2", 2)})},
             3,
             absl::StrCat("hangs", kPlace,
                          "it has not moved for 21s and waits for no rank; rank 2 waits for it in "
                          "call 3 of group pp.0-1.2")},
        Case{"ACutTransferBesideACollective",
             {Still({In("tp.0", 8)}), Still({Done("tp.0", 7), Receives("pp.0-1.1", 3, 2)}),
              Still({Sends("pp.0-1.1", 3, 1)})},
             1,
             absl::StrCat("waits", kPlace,
                          "it has received nothing from rank 2 for 21s in call 3 of group "
                          "pp.0-1.1, which that rank has begun: check the network between them; "
                          "rank 2 could not send to rank 1 either")},
        // The first of a transfer to several names none of them, and waits for all.
        Case{"ASenderToSeveralWaitsForTheOneBehind",
             {Still({In("pp.0-1.0-1-2", 3)}), Still({Receives("pp.0-1.0-1-2", 3, 0)}),
              Still({Done("pp.0-1.0-1-2", 2)})},
             2,
             absl::StrCat("hangs", kPlace,
                          "it has not moved for 21s and waits for no rank; rank 0 waits for it in "
                          "call 3 of group pp.0-1.0-1-2")},
        // The host of 0 is between steps and waits for that of 1, whose device waits for that of 2.
        Case{"AControlGroupBesideThoseOfDevices",
             {Still({Receives("control", 3, 1), Done("tp.0", 8)}),
              Still({Done("control", 2), In("tp.1", 8)}),
              Still({Done("control", 2), Done("tp.1", 7)})},
             2,
             absl::StrCat("hangs", kPlace,
                          "it has not moved for 21s and waits for no rank; rank 1 waits for it in "
                          "call 8 of group tp.1")},
        Case{"FrozenBeforeACollective",
             {Still({In("tp.0", 5)}), Frozen(Still({Done("tp.0", 4)})), Still({In("tp.2", 5)})},
             1,
             absl::StrCat("hangs", kPlace,
                          "its process has shown no sign of life for 21s; rank 0 waits for it in "
                          "call 5 of group tp.0")},
        Case{"ACollectiveWaitsForOneThatComputes",
             {Still({In("tp.0", 5)}), With(Still({Done("tp.0", 4)}), Activity::kComputing)}}),
    [](const auto& info) { return info.param.name; });

TEST(FindHangTest, ARankThatMovesIsWaitedForRightly) {
  EXPECT_EQ(FindHang({0, 1}, {{0, Still({Receives("dp.0", 5, 1)})}}, {}), std::nullopt);
}

TEST(FindHangTest, OfManyRanksThatWaitFourAreNamed) {
  std::vector<RankPosition> ranks(7, Still({Receives("tp.0", 5, 0)}));
  ranks[0] = Still({Done("tp.0", 4)});
  EXPECT_THAT(Find(ranks)->message,
              HasSubstr("rank 4 waits for it in call 5 of group tp.0 and 2 more ranks do"));
}

// A cut of a link and a stopped compute lane look alike where two groups wait crosswise: the walk
// must still end.
TEST(FindHangTest, RanksThatWaitCrosswiseInTwoGroupsEndAtOneOfThem) {
  const std::optional<Hang> hang = Find({Still({Receives("pp.back", 3, 1), Done("pp.ahead", 7)}),
                                         Still({Done("pp.back", 2), Receives("pp.ahead", 8, 0)})});
  ASSERT_TRUE(hang.has_value());
  EXPECT_EQ(hang->rank, 0);
}

}  // namespace
}  // namespace stretto::coordinator::testing
