// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/cost/topology.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> Speeds(std::vector<double> capacities, const std::vector<Flow>& flows) {
  std::vector<const Flow*> pointers;
  for (const Flow& flow : flows) pointers.push_back(&flow);
  return FairSpeeds(capacities, pointers);
}

Port In(int node) { return {.interface = true, .of = node, .out = false}; }
Port Out(int node) { return {.interface = true, .of = node, .out = true}; }
Port LinkIn(int rank) { return {.interface = false, .of = rank, .out = false}; }
Port LinkOut(int rank) { return {.interface = false, .of = rank, .out = true}; }

TEST(FairSpeedsTest, FlowsOfOnePortShareItAndOthersDoNot) {
  EXPECT_THAT(Speeds({10}, {{{0, 1}}}), ElementsAre(10));
  EXPECT_THAT(Speeds({10}, {{{0, 1}}, {{0, 1}}}), ElementsAre(5, 5));
  EXPECT_THAT(Speeds({10, 10}, {{{0, 1}}, {{1, 1}}}), ElementsAre(10, 10));
}

TEST(FairSpeedsTest, AFlowThatIsSlowElsewhereLeavesItsShare) {
  // The third flow gets 2 on port 1, so the others share the rest of port 0.
  EXPECT_THAT(Speeds({10, 2}, {{{0, 1}}, {{0, 1}}, {{0, 1}, {1, 1}}}), ElementsAre(4, 4, 2));
  // Port 1 has no flow that it slows down.
  EXPECT_THAT(Speeds({10, 8}, {{{0, 1}}, {{0, 1}, {1, 1}}}), ElementsAre(5, 5));
}

TEST(FairSpeedsTest, PartsCountOneByOne) {
  EXPECT_THAT(Speeds({9}, {{{0, 2}}, {{0, 1}}}), ElementsAre(3, 3));
}

TEST(FairSpeedsTest, AFlowWithoutPortsIsFree) {
  EXPECT_THAT(Speeds({4}, {{}, {{0, 1}}}), ElementsAre(kInfinity, 4));
}

TEST(TopologyTest, ARankIsANodeUnlessToldOtherwise) {
  const Route route = RouteOf({}, {"tp", {0, 3}}, CollectiveKind::kAllReduce);
  EXPECT_THAT(route.parts, UnorderedElementsAre(Pair(Out(0), 1), Pair(In(3), 1), Pair(Out(3), 1),
                                                Pair(In(0), 1)));
}

TEST(TopologyTest, ARingCrossesAnInterfaceAsOftenAsItChangesNodes) {
  Interconnect wire{.bytes_per_second = 12,
                    .latency_seconds = 0.5,
                    .node_bytes_per_second = 10,
                    .node_latency_seconds = 0.25,
                    .topology = {{0, 0, 1, 1}}};
  const Route adjacent = RouteOf(wire, {"dp", {0, 1, 2, 3}}, CollectiveKind::kAllReduce);
  EXPECT_THAT(adjacent.parts,
              UnorderedElementsAre(Pair(LinkOut(0), 1), Pair(LinkIn(1), 1), Pair(Out(0), 1),
                                   Pair(In(1), 1), Pair(LinkOut(2), 1), Pair(LinkIn(3), 1),
                                   Pair(Out(1), 1), Pair(In(0), 1)));
  EXPECT_EQ(SpeedAlone(wire, adjacent), 10);
  EXPECT_EQ(adjacent.latency_seconds, 0.5);
  const Route alternating = RouteOf(wire, {"dp", {0, 2, 1, 3}}, CollectiveKind::kAllReduce);
  EXPECT_EQ(alternating.parts.at(Out(0)), 2);
  EXPECT_EQ(SpeedAlone(wire, alternating), 6);
  const Route within = RouteOf(wire, {"tp", {2, 3}}, CollectiveKind::kAllReduce);
  EXPECT_FALSE(within.parts.contains(Out(1)));
  EXPECT_EQ(SpeedAlone(wire, within), 10);
  EXPECT_EQ(within.latency_seconds, 0.25);
}

TEST(TopologyTest, AChainDoesNotReturn) {
  const Route chain = RouteOf({}, {"pp.0-1", {0, 1, 2}}, CollectiveKind::kBroadcast);
  EXPECT_THAT(chain.parts, UnorderedElementsAre(Pair(Out(0), 1), Pair(In(1), 1), Pair(Out(1), 1),
                                                Pair(In(2), 1)));
}

TEST(TopologyTest, OneRankSendsNothing) {
  const Route route = RouteOf({.latency_seconds = 1}, {"tp", {0}}, CollectiveKind::kAllReduce);
  EXPECT_TRUE(route.parts.empty());
  EXPECT_EQ(SpeedAlone({}, route), kInfinity);
}

}  // namespace
}  // namespace stretto
