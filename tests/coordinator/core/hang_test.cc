// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/hang.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/core/scene.h"

namespace stretto::coordinator::testing {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(21);

// A rank that is idle in step 7 and has not moved for 21 s; its process is alive.
RankPosition Still(std::vector<ChannelPosition> channels = {}) {
  return {.still = kLong,
          .step = 7,
          .phase = "forward",
          .operation = "17 compute gemm",
          .channels = std::move(channels)};
}
ChannelPosition Done(const std::string& group, int64_t begun) {
  return {.group = group, .begun = begun};
}
ChannelPosition Receives(const std::string& group, int64_t begun, int32_t peer) {
  return {.group = group, .begun = begun, .waiting = true, .peer = peer, .receives = true};
}
ChannelPosition Sends(const std::string& group, int64_t begun, int32_t peer) {
  return {.group = group, .begun = begun, .waiting = true, .peer = peer};
}

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

RankPosition With(RankPosition position, Activity activity) {
  position.activity = activity;
  return position;
}
RankPosition Frozen(RankPosition position, absl::Duration duration = kLong) {
  position.frozen = duration;
  return position;
}
RankPosition For(RankPosition position, absl::Duration still) {
  position.still = still;
  return position;
}
RankPosition InStep(RankPosition position, int64_t step) {
  position.step = step;
  return position;
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

// ---- in the core

// Two ranks on two workers, RUNNING.
class HangTest : public ::testing::Test {
 protected:
  void SetUp() override {
    scene_.Register("a", 1);
    scene_.Register("b", 1);
    scene_.Submit("job", 2);
    scene_.Prepare("job");
  }
  Scene scene_;
};

TEST_F(HangTest, FailsTheJobNamingTheRankThatIsBehind) {
  scene_.Still("a", "job", {{0, Still({Receives("tp.0", 5, 1)})}});
  EXPECT_EQ(scene_.job("job").stop_reason, "");
  scene_.TakeLog();
  scene_.Still("b", "job", {{1, Still({Done("tp.0", 4)})}});
  const JobRecord job = scene_.job("job");
  ASSERT_TRUE(job.first_failure.has_value());
  EXPECT_EQ(job.first_failure->rank, 1);
  EXPECT_EQ(job.first_failure->worker, "b");
  EXPECT_EQ(job.first_failure->reason, "Hang");
  EXPECT_EQ(job.first_failure->step, 7);
  EXPECT_EQ(job.first_failure->phase, "forward");
  EXPECT_EQ(job.first_failure->last_operation, "17 compute gemm");
  const std::string log = scene_.TakeText();
  EXPECT_THAT(log, HasSubstr("send a stop job epoch=1 reason=Hang"));
  EXPECT_THAT(log, HasSubstr("send b stop job epoch=1 reason=Hang"));
  // What its daemon does to it explains nothing better.
  scene_.Exit("job", 0, Stopped());
  scene_.Exit("job", 1, Killed(9));
  EXPECT_EQ(scene_.job("job").state, JobState::kFailed);
  EXPECT_EQ(scene_.job("job").first_failure->rank, 1);
  EXPECT_EQ(scene_.job("job").FindCondition("Succeeded")->reason, "Hang");
}

TEST_F(HangTest, ARankThatMovedAgainIsForgotten) {
  scene_.Still("a", "job", {{0, Still({Receives("tp.0", 5, 1)})}});
  scene_.Still("a", "job", {});
  scene_.Still("b", "job", {{1, Still({Done("tp.0", 4)})}});
  EXPECT_EQ(scene_.job("job").state, JobState::kRunning);
  EXPECT_EQ(scene_.job("job").stop_reason, "");
}

TEST_F(HangTest, WhileAWorkerIsLostNobodyIsJudged) {
  scene_.Disconnect("b");
  scene_.Still("a", "job", {{0, Frozen(Still({Receives("tp.0", 5, 1)}))}});
  EXPECT_EQ(scene_.job("job").stop_reason, "");
  // What it knew of a rank before it registered again is not known any more.
  scene_.Register("b", 1, {{"job", 1}});
  scene_.Still("b", "job", {{1, Still({Done("tp.0", 4)})}});
  EXPECT_EQ(scene_.job("job").stop_reason, "Hang");
}

TEST_F(HangTest, PositionsOfOthersRanksOldEpochsAndOldSessionsChangeNothing) {
  scene_.Still("a", "job", {{1, Frozen(Still())}, {2, Frozen(Still())}, {-1, Frozen(Still())}});
  scene_.Still("a", "job", {{0, Frozen(Still())}}, Epoch(0));
  EXPECT_EQ(scene_.job("job").stop_reason, "");
  scene_.Disconnect("a");
  EXPECT_EQ(scene_.Still("a", "job", {{0, Frozen(Still())}}).status.code(),
            absl::StatusCode::kAborted);
}

TEST_F(HangTest, AJobThatIsPreparingMayHangToo) {
  scene_.Register("c", 1);
  scene_.Submit("next", 1);
  scene_.Still("c", "next", {{0, {.attached = false, .still = kLong}}});
  const JobRecord job = scene_.job("next");
  EXPECT_EQ(job.FindCondition("Prepared")->reason, "Hang");
  EXPECT_EQ(job.FindCondition("Prepared")->message,
            "rank 0 on worker c: has not attached to its daemon 21s after its start");
}

}  // namespace
}  // namespace stretto::coordinator::testing
