// SPDX-License-Identifier: Apache-2.0

// Timelines computed by hand, and the laws that every timeline keeps.

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/exec/intervals.h"
#include "tests/worker/engine/program/programs.h"
#include "worker/engine/exec/backend_sim/timeline.h"
#include "worker/engine/exec/ledger.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// compute | a |    b     | c |
// comm.tp |   |  r   |
constexpr char kTwoLanes[] =
    "program rank=0 world=2\n"
    "group tp 0,1\n"
    "lane compute\n"
    "lane comm.tp\n"
    "buffer %0 x f32 4 input\n"
    "0 compute zero a fwd out=%0\n"
    "1 comm.tp all_reduce r fwd in=%0 out=%0 on=tp wait=0\n"
    "2 compute zero b fwd out=%0\n"
    "3 compute zero c fwd out=%0 wait=1\n";

CostModel Costs(std::map<std::string, double> seconds, Contention contention = {}) {
  CostModel model{.contention = contention};
  for (const auto& [tag, value] : seconds) {
    model.table.Set(absl::StrCat("fwd ", tag, tag == "r" ? " all_reduce" : " zero"), value);
  }
  return model;
}

std::vector<Interval> TimelineOf(const Program& program, const CostModel& cost) {
  absl::StatusOr<std::vector<Interval>> timeline = Simulate(program, cost);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return timeline.ok() ? *std::move(timeline) : std::vector<Interval>(program.ops.size());
}

TEST(SimTimelineTest, LanesRunInOrderAndWaitForEachOther) {
  EXPECT_THAT(TimelineOf(ProgramOf(kTwoLanes), Costs({{"a", 2}, {"r", 3}, {"b", 4}, {"c", 1}})),
              ElementsAre(At(0, 2), At(2, 5), At(2, 6), At(6, 7)));
  EXPECT_THAT(TimelineOf(ProgramOf(kTwoLanes), Costs({{"a", 2}, {"r", 9}, {"b", 4}, {"c", 1}})),
              ElementsAre(At(0, 2), At(2, 11), At(2, 6), At(11, 12)));
}

// Nanoseconds of an interval would overflow.
TEST(SimTimelineTest, AStepOfManyYearsIsRefused) {
  for (double seconds : {1.1e9, 1e308, std::numeric_limits<double>::infinity()}) {
    const auto costs = Costs({{"a", 2}, {"r", 3}, {"b", seconds}, {"c", 1}});
    EXPECT_EQ(Simulate(ProgramOf(kTwoLanes), costs).status(),
              absl::InvalidArgumentError("simulated time: found more than 1e+09 s, expected costs "
                                         "of a shorter step"))
        << seconds;
  }
}

TEST(SimTimelineTest, ComputeIsSlowerUnderATransferOnly) {
  // b does 3 s * 0.75 of its 4 s until r ends at 5, the rest at full rate.
  EXPECT_THAT(TimelineOf(ProgramOf(kTwoLanes),
                         Costs({{"a", 2}, {"r", 3}, {"b", 4}, {"c", 1}}, {.compute = 0.25})),
              ElementsAre(At(0, 2), At(2, 5), At(2, 6.75), At(6.75, 7.75)));
}

TEST(SimTimelineTest, ATransferIsSlowerUnderComputeOnly) {
  // r does 1 s * 0.5 of its 3 s while b computes.
  EXPECT_THAT(TimelineOf(ProgramOf(kTwoLanes),
                         Costs({{"a", 2}, {"r", 3}, {"b", 1}, {"c", 1}}, {.communication = 0.5})),
              ElementsAre(At(0, 2), At(2, 5.5), At(2, 3), At(5.5, 6.5)));
}

TEST(SimTimelineTest, BothSidesSlowEachOther) {
  // b: 1 s at 0.8 takes 1.25 s, under which r does 0.625 of its 3 s.
  EXPECT_THAT(TimelineOf(ProgramOf(kTwoLanes), Costs({{"a", 2}, {"r", 3}, {"b", 1}, {"c", 1}},
                                                     {.compute = 0.2, .communication = 0.5})),
              ElementsAre(At(0, 2), At(2, 5.625), At(2, 3.25), At(5.625, 6.625)));
}

TEST(SimTimelineTest, OperationsOfNoTimeTakeNone) {
  EXPECT_THAT(TimelineOf(ProgramOf(kTwoLanes), Costs({{"b", 4}}, {.compute = 0.5})),
              ElementsAre(At(0, 0), At(0, 0), At(0, 4), At(4, 4)));
}

// The head of a program with two lanes of transfers.
constexpr char kTwoLanesOfTransfers[] =
    "program rank=0 world=2\n"
    "group tp 0,1\n"
    "group dp 0,1\n"
    "lane compute\n"
    "lane comm.tp\n"
    "lane comm.dp\n"
    "buffer %0 x f32 4 input\n";

TEST(SimTimelineTest, TwoLanesOfTransfersCountOnce) {
  const Program program = ProgramOf(absl::StrCat(kTwoLanesOfTransfers,
                                                 "0 comm.tp all_reduce r fwd in=%0 out=%0 on=tp\n"
                                                 "1 comm.dp all_reduce r fwd in=%0 out=%0 on=dp\n"
                                                 "2 comm.dp all_reduce r fwd in=%0 out=%0 on=dp\n"
                                                 "3 compute zero a fwd out=%0\n"));
  EXPECT_THAT(TimelineOf(program, Costs({{"r", 2}, {"a", 3}}, {.compute = 0.5})),
              ElementsAre(At(0, 2), At(0, 2), At(2, 4), At(0, 5)));
}

TEST(SimTimelineTest, EachPairSlowsDownByItsOwnRates) {
  const Program program = ProgramOf(
      "program rank=0 world=2\n"
      "group tp 0,1\n"
      "lane compute\n"
      "lane comm.tp\n"
      "buffer %0 x f32 4 input\n"
      "buffer %1 u bf16 4 input\n"
      "buffer %2 y bf16 4 input\n"
      "0 compute gelu b fwd in=%1 out=%2\n"
      "1 comm.tp all_reduce r fwd in=%0 out=%0 on=tp\n"
      "2 compute zero c fwd out=%2\n");
  CostModel cost = Costs({{"r", 4}, {"c", 2}});
  cost.table.Set("fwd b gelu", 3);
  const auto memory = std::pair{ComputeClass::kMemory, CollectiveKind::kAllReduce};
  cost.pairs[memory] = {.compute = 0.25};
  // All are of one class: b takes 4 s, which is as long as the transfer.
  EXPECT_THAT(TimelineOf(program, cost), ElementsAre(At(0, 4), At(0, 4), At(4, 6)));
  cost.pairs[memory] = {.communication = 0.5};
  // The transfer is half as fast until c ends at 5, and moves 2.5 s of its 4 s by then.
  EXPECT_THAT(TimelineOf(program, cost), ElementsAre(At(0, 3), At(0, 6.5), At(3, 5)));
  cost.pairs = {{{ComputeClass::kProduct, CollectiveKind::kAllReduce}, {.compute = 0.25}}};
  EXPECT_THAT(TimelineOf(program, cost), ElementsAre(At(0, 3), At(0, 4), At(3, 5)));
}

// It waits as long as its rank computes, at most for its turn.
TEST(SimTimelineTest, ATransferThatBeginsBesideAComputationWaitsForItsTurn) {
  const Program program = ProgramOf(kTwoLanes);
  const auto at = [&](double turn) {
    return TimelineOf(program, Costs({{"a", 2}, {"r", 3}, {"b", 4}, {"c", 1}},
                                     {.communication = 0.5, .turn_seconds = turn}));
  };
  // Beside b it moves 1.5 s of its 3 s after a turn of 1, and 2 s without one.
  EXPECT_THAT(at(0), ElementsAre(At(0, 2), At(2, 7), At(2, 6), At(7, 8)));
  EXPECT_THAT(at(1), ElementsAre(At(0, 2), At(2, 7.5), At(2, 6), At(7.5, 8.5)));
  EXPECT_THAT(at(4), ElementsAre(At(0, 2), At(2, 9), At(2, 6), At(9, 10)));
  EXPECT_THAT(at(9), ElementsAre(At(0, 2), At(2, 9), At(2, 6), At(9, 10)));
}

// b runs at full speed for the turn of 1 s and at half its speed for the 3 s of the transfer.
TEST(SimTimelineTest, ATransferThatWaitsForItsTurnSlowsDownNothing) {
  EXPECT_THAT(TimelineOf(ProgramOf(kTwoLanes), Costs({{"a", 2}, {"r", 3}, {"b", 4}, {"c", 1}},
                                                     {.compute = 0.5, .turn_seconds = 1})),
              ElementsAre(At(0, 2), At(2, 6), At(2, 7.5), At(7.5, 8.5)));
}

// c begins in the middle of r. The end of p makes c and q ready, and the rank posts q first; s
// follows q beside c, which has begun before.
TEST(SimTimelineTest, ATransferWaitsForNoComputationThatBeginsAfterIt) {
  const Program program =
      ProgramOf(absl::StrCat(kTwoLanesOfTransfers,
                             "buffer %1 y f32 4 input\n"
                             "buffer %2 z f32 4 input\n"
                             "0 comm.tp all_reduce r fwd in=%0 out=%0 on=tp\n"
                             "1 comm.dp all_reduce p fwd in=%1 out=%1 on=dp\n"
                             "2 compute zero c fwd out=%1 wait=1\n"
                             "3 comm.dp all_reduce q fwd in=%2 out=%2 on=dp\n"
                             "4 comm.dp all_reduce s fwd in=%2 out=%2 on=dp\n"));
  CostModel cost = Costs({{"r", 5}, {"c", 6}}, {.turn_seconds = 2});
  cost.table.Set("fwd p all_reduce", 1);
  cost.table.Set("fwd q all_reduce", 3);
  cost.table.Set("fwd s all_reduce", 1);
  EXPECT_THAT(TimelineOf(program, cost),
              ElementsAre(At(0, 5), At(0, 1), At(1, 7), At(1, 4), At(4, 7)));
}

// The same program on both ranks, rank 1 computing at half the speed.
TEST(SimTimelineTest, ATransferBeginsWhenTheLastRankIsReady) {
  const Program first = ProgramOf(kTwoLanes);
  const Program second = ProgramOf(With(kTwoLanes, "rank=0", "rank=1"));
  const Contention contention{.compute = 0.25};
  const CostModel fast = Costs({{"a", 2}, {"r", 3}, {"b", 4}, {"c", 1}}, contention);
  const CostModel slow = Costs({{"a", 4}, {"r", 3}, {"b", 8}, {"c", 2}}, contention);
  const auto timelines = Simulate({{{&first, &fast}, {&second, &slow}}});
  ASSERT_TRUE(timelines.ok()) << timelines.status();
  // The wire is busy from 4 to 7 on both. Rank 0: b is half done when it begins, then 2 s of work
  // at 0.75. Rank 1: 3 s * 0.75 of b's 8 s under it, then 5.75 s.
  EXPECT_THAT((*timelines)[0], ElementsAre(At(0, 2), At(2, 7), At(2, 4 + 2 / 0.75), At(7, 8)));
  EXPECT_THAT((*timelines)[1], ElementsAre(At(0, 4), At(4, 7), At(4, 12.75), At(12.75, 14.75)));
}

TEST(SimTimelineTest, ATransferIsAsSlowAsItsSlowestRank) {
  const Program first = ProgramOf(kTwoLanes);
  const Program second = ProgramOf(With(kTwoLanes, "rank=0", "rank=1"));
  // One rank takes r for longer; the other computes under it and slows it.
  const CostModel a = Costs({{"r", 3}, {"b", 2}}, {.communication = 0.5}), b = Costs({{"r", 4}});
  for (const auto& [cost0, cost1] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
    const auto timelines = Simulate({{{&first, cost0}, {&second, cost1}}});
    ASSERT_TRUE(timelines.ok()) << timelines.status();
    EXPECT_EQ((*timelines)[0][1], At(0, 5));
    EXPECT_EQ((*timelines)[1][1], At(0, 5));
  }
}

TEST(SimTimelineTest, AGroupIsOnlyItsOwnRanks) {
  // Ranks 0 and 2 meet; rank 1, far behind, meets itself.
  const std::string text =
      "program rank=0 world=3\n"
      "group tp 0,2\n"
      "lane compute\n"
      "lane comm.tp\n"
      "buffer %0 x f32 4 input\n"
      "0 compute zero a fwd out=%0\n"
      "1 comm.tp all_reduce r fwd in=%0 out=%0 on=tp wait=0\n";
  const Program programs[] = {ProgramOf(text),
                              ProgramOf(With(With(text, "rank=0", "rank=1"), "tp 0,2", "tp 1")),
                              ProgramOf(With(text, "rank=0", "rank=2"))};
  const CostModel fast = Costs({{"a", 1}, {"r", 1}}), slow = Costs({{"a", 9}, {"r", 1}});
  const auto timelines =
      Simulate({{{&programs[0], &fast}, {&programs[1], &slow}, {&programs[2], &fast}}});
  ASSERT_TRUE(timelines.ok()) << timelines.status();
  EXPECT_EQ((*timelines)[0][1], At(1, 2));
  EXPECT_EQ((*timelines)[1][1], At(9, 10));
  EXPECT_EQ((*timelines)[2][1], At(1, 2));
}

TEST(SimTimelineTest, WhatCanNeverStartIsNamed) {
  const Program program = ProgramOf(
      With(kTwoLanes, "0 compute zero a fwd out=%0", "0 compute zero a fwd out=%0 wait=1"));
  const absl::Status status = Simulate(program, Costs({})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("rank 0 at '0 compute zero a fwd out=%0 wait=1'; rank 0 at '1 comm.tp"));
}

TEST(SimTimelineTest, ARankThatNeverComesIsAnError) {
  const Program first = ProgramOf(kTwoLanes);
  Program second = ProgramOf(With(kTwoLanes, "rank=0", "rank=1"));
  second.ops.resize(1);
  const CostModel cost = Costs({});
  const absl::Status status = Simulate({{{&first, &cost}, {&second, &cost}}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0 at '1 comm.tp all_reduce r"));
}

TEST(SimTimelineTest, RanksMustBeAllOrOne) {
  const Program first = ProgramOf(With(kTwoLanes, "world=2", "world=3"));
  const Program second = ProgramOf(With(With(kTwoLanes, "world=2", "world=3"), "rank=0", "rank=1"));
  const CostModel cost = Costs({});
  const auto error = [](const std::vector<SimulatedRank>& ranks) {
    const absl::Status status = Simulate(ranks).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(error({{&first, &cost}, {&second, &cost}}),
              HasSubstr("found 2 of 3 ranks, expected all of them, or one that stands for all"));
  EXPECT_THAT(error({{&first, &cost}, {&first, &cost}}),
              HasSubstr("found rank 0 twice, expected it once"));
  EXPECT_THAT(error({{&first, &cost, {{1, {}}}}, {&second, &cost}}),
              HasSubstr("found rank 1 twice, expected it once"));
  CostModel placed = cost;
  placed.interconnect.topology.node = {0, 0};
  EXPECT_THAT(error({{&first, &placed}}),
              HasSubstr("interconnect.topology: found nodes of 2 ranks, expected 3"));
}

TEST(SimTimelineTest, AnEmptyProgramTakesNoTime) {
  EXPECT_TRUE(TimelineOf(ProgramOf("program rank=0 world=1\n"), {}).empty());
  EXPECT_EQ(SpanOf({}), At(0, 0));
}

// Operations on three lanes, one of which communicates, with waits for earlier ones.
Program RandomProgram(std::mt19937_64& random) {
  std::string text =
      "program rank=0 world=2\ngroup tp 0,1\nlane compute\nlane compute.1\nlane comm.tp\n"
      "buffer %0 x f32 4 input\n";
  for (int i = 0; i < 60; ++i) {
    const int lane = static_cast<int>(random() % 3);
    constexpr const char* kWords[] = {"compute zero", "compute.1 zero", "comm.tp all_reduce"};
    absl::StrAppend(&text, i, " ", kWords[lane], " o", i, " fwd", lane == 2 ? " in=%0" : "",
                    " out=%0", lane == 2 ? " on=tp" : "");
    if (i > 0 && random() % 2 == 0) {
      absl::StrAppend(&text, " wait=", random() % static_cast<uint64_t>(i));
    }
    absl::StrAppend(&text, "\n");
  }
  return ProgramOf(text);
}

TEST(SimTimelineTest, EveryTimelineKeepsTheLaws) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 50; ++round) {
    const Program program = RandomProgram(random);
    CostModel cost{.contention = {.compute = round % 2 == 0 ? 0.0 : 0.3}};
    for (const Op& op : program.ops)
      cost.table.Set(TagKey(op), 1e-6 * static_cast<double>(random() % 1000));
    const std::vector<Interval> timeline = TimelineOf(program, cost);
    EXPECT_EQ(timeline, TimelineOf(program, cost)) << "the same again";

    int64_t lane_free[3] = {0, 0, 0};
    for (size_t i = 0; i < program.ops.size(); ++i) {
      const Op& op = program.ops[OpId::Of(i)];
      // As soon as the lane and the waits allow, and no sooner.
      int64_t ready = lane_free[op.lane.position()];
      for (OpId wait : op.waits) ready = std::max(ready, timeline[wait.position()].end);
      EXPECT_EQ(timeline[i].begin, ready);
      lane_free[op.lane.position()] = timeline[i].end;
      // Its time under a transfer counts less, the rest in full.
      double work = static_cast<double>(timeline[i].end - timeline[i].begin);
      for (size_t j = 0; j < program.ops.size() && !IsCollective(op.kind); ++j) {
        if (!IsCollective(program.ops[OpId::Of(j)].kind)) continue;
        const int64_t under = std::min(timeline[i].end, timeline[j].end) -
                              std::max(timeline[i].begin, timeline[j].begin);
        work -= cost.contention.compute * static_cast<double>(std::max<int64_t>(under, 0));
      }
      EXPECT_NEAR(work, cost.Alone(program, op) * 1e9, 20) << "rounding to nanoseconds";
    }
    const StepLedger ledger = ComputeLedger(program, timeline, {}, SpanOf(timeline));
    EXPECT_NEAR(ledger.seconds, static_cast<double>(SpanOf(timeline).end) * 1e-9, 1e-12);
  }
}

}  // namespace
}  // namespace stretto
