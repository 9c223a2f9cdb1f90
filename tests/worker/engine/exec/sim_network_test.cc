// SPDX-License-Identifier: Apache-2.0

// Timelines of transfers that share the network, computed by hand. An interface carries 1,000 bytes
// per second each way, and a step of a ring has no latency unless a test gives it one.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/exec/intervals.h"
#include "tests/worker/engine/program/programs.h"
#include "worker/engine/exec/backend_sim/timeline.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;

// Rank 0 of four with one collective in each of several groups, each on a lane of its own.
struct Call {
  const char* ranks;  // of its group
  const char* kind;
  int bytes;
};
Program ProgramWith(const std::vector<Call>& calls) {
  std::string groups, lanes, buffers, ops;
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string name = absl::StrCat("g", i);
    absl::StrAppend(&groups, "group ", name, " ", calls[i].ranks, "\n");
    absl::StrAppend(&lanes, "lane comm.", name, "\n");
    absl::StrAppend(&buffers, "buffer %", i, " b", i, " f32 ", calls[i].bytes / 4, " input\n");
    const std::string kind = calls[i].kind;
    const bool sends = kind == "send", receives = kind == "recv";
    absl::StrAppend(&ops, i, " comm.", name, " ", kind, " x fwd", receives ? "" : " in=%",
                    receives ? "" : absl::StrCat(i), sends ? "" : absl::StrCat(" out=%", i),
                    " on=", name, "\n");
  }
  return ProgramOf(absl::StrCat("program rank=0 world=4\n", groups, lanes, buffers, ops));
}

std::vector<Interval> Timeline(const std::vector<Call>& calls, const Interconnect& wire,
                               std::vector<RankCopy> copies = {}) {
  const Program program = ProgramWith(calls);
  const CostModel cost{.interconnect = wire};
  const auto timelines = Simulate(std::vector<SimulatedRank>{{&program, &cost, std::move(copies)}});
  EXPECT_TRUE(timelines.ok()) << timelines.status();
  return timelines.ok() ? timelines->front() : std::vector<Interval>(calls.size());
}

constexpr double kRate = 1000;

TEST(SimNetworkTest, TransfersOfOneDirectionShareAnInterface) {
  // Both at half the rate until the first is done; then the second has 1,000 bytes left.
  EXPECT_THAT(Timeline({{"0,1", "send", 1000}, {"0,2", "send", 2000}}, {kRate}),
              ElementsAre(At(0, 2), At(0, 3)));
}

TEST(SimNetworkTest, OppositeDirectionsDoNotShare) {
  EXPECT_THAT(Timeline({{"0,1", "send", 1000}, {"1,0", "recv", 2000}}, {kRate}),
              ElementsAre(At(0, 1), At(0, 2)));
}

TEST(SimNetworkTest, ARingUsesBothDirections) {
  // Alone, the all-reduce sends its bytes once in each direction; it shares one with the send.
  EXPECT_THAT(Timeline({{"0,1", "all_reduce", 1000}, {"0,2", "send", 1000}}, {kRate}),
              ElementsAre(At(0, 2), At(0, 2)));
}

TEST(SimNetworkTest, InterfacesOfBothEndsCount) {
  // Ranks 2 and 3 are one node, so the second and third transfer share its interface too, and the
  // first gets no more than a third: all three leave node 0.
  const Interconnect one_node{.bytes_per_second = kRate, .topology = {{0, 1, 2, 2}}};
  EXPECT_THAT(
      Timeline({{"0,1", "send", 1000}, {"0,2", "send", 1000}, {"0,3", "send", 1000}}, one_node),
      ElementsAre(At(0, 3), At(0, 3), At(0, 3)));
  // Backwards, two enter node 0 from interfaces of their own.
  EXPECT_THAT(Timeline({{"1,0", "recv", 1000}, {"2,0", "recv", 500}}, one_node),
              ElementsAre(At(0, 1.5), At(0, 1)));
}

TEST(SimNetworkTest, LatencyIsNotShared) {
  EXPECT_THAT(Timeline({{"0,1", "send", 1000}, {"0,2", "send", 1000}},
                       {.bytes_per_second = kRate, .latency_seconds = 0.5}),
              ElementsAre(At(0, 2.5), At(0, 2.5)));
}

TEST(SimNetworkTest, RanksOfANodeUseTheirOwnLinks) {
  const Interconnect wire{
      .bytes_per_second = kRate, .node_bytes_per_second = 4000, .topology = {{0, 0, 1, 1}}};
  EXPECT_THAT(Timeline({{"0,1", "send", 1000}, {"0,2", "send", 1000}}, wire),
              ElementsAre(At(0, 0.25), At(0, 1)));
}

// Two transfers of one group with a computation of `pause` seconds between them, and one of `busy`
// seconds that begins with the second transfer.
std::vector<Interval> WithPause(double pause, double burst_bytes, double busy = 0,
                                double turn_seconds = 0) {
  const Program program = ProgramOf(
      "program rank=0 world=2\ngroup g0 0,1\nlane compute\nlane comm.g0\n"
      "buffer %0 b f32 250 input\nbuffer %1 c f32 4 activation\n"
      "0 comm.g0 send x fwd in=%0 on=g0\n"
      "1 compute zero pause fwd out=%1 wait=0\n"
      "2 comm.g0 send y fwd in=%0 on=g0 wait=1\n"
      "3 compute zero busy fwd out=%1\n");
  CostModel cost{.interconnect = {.bytes_per_second = kRate, .burst_bytes = burst_bytes},
                 .contention = {.turn_seconds = turn_seconds}};
  cost.table.Set("fwd pause zero", pause);
  cost.table.Set("fwd busy zero", busy);
  auto timeline = Simulate(program, cost);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  if (!timeline.ok()) return std::vector<Interval>(3);
  timeline->pop_back();
  return *std::move(timeline);
}

TEST(SimNetworkTest, AnIdleInterfaceSavesUpABurst) {
  // None when the step begins; then as much as it could have sent in the pause.
  EXPECT_THAT(WithPause(0.25, 400), ElementsAre(At(0, 1), At(1, 1.25), At(1.25, 2)));
  // No more than the bucket holds.
  EXPECT_THAT(WithPause(5, 400), ElementsAre(At(0, 1), At(1, 6), At(6, 6.6)));
  // A burst of everything takes no time.
  EXPECT_THAT(WithPause(5, 4000), ElementsAre(At(0, 1), At(1, 6), At(6, 6)));
  EXPECT_THAT(WithPause(5, 0), ElementsAre(At(0, 1), At(1, 6), At(6, 7)));
}

TEST(SimNetworkTest, WhoWaitsForItsWholeTurnSendsNoBurst) {
  EXPECT_THAT(WithPause(5, 400, 3, 0), ElementsAre(At(0, 1), At(1, 6), At(6, 6.6)));
  // The seconds of a turn were measured with what the link saves up during it.
  EXPECT_THAT(WithPause(5, 400, 3, 1), ElementsAre(At(0, 1), At(1, 6), At(6, 8)));
  // Nothing computes any longer after half a turn.
  EXPECT_THAT(WithPause(5, 400, 0.5, 1), ElementsAre(At(0, 1), At(1, 6), At(6, 7.1)));
}

TEST(SimNetworkTest, TheBucketIsEmptyWhenTheStepBegins) {
  // Both begin with the step, when the bucket is empty.
  EXPECT_THAT(Timeline({{"0,1", "send", 1000}, {"0,2", "send", 1000}},
                       {.bytes_per_second = kRate, .burst_bytes = 500}),
              ElementsAre(At(0, 2), At(0, 2)));
}

// Rank 1 does the same as rank 0 at the same time, to rank 3 on the same other node.
TEST(SimNetworkTest, CopiesOnANodeShareItsInterface) {
  const Interconnect wire{.bytes_per_second = kRate, .topology = {{0, 0, 1, 1}}};
  const std::vector<Call> calls = {{"0,2", "all_reduce", 1000}};
  EXPECT_THAT(Timeline(calls, wire), ElementsAre(At(0, 1)));
  EXPECT_THAT(Timeline(calls, wire,
                       {{1, {{{"g0", {1, 3}}}}}, {2, {{{"g0", {0, 2}}}}}, {3, {{{"g0", {1, 3}}}}}}),
              ElementsAre(At(0, 2)));
}

}  // namespace
}  // namespace stretto
