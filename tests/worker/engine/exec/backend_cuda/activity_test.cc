// SPDX-License-Identifier: Apache-2.0

// Comparisons worked out by hand. Times in nanoseconds.
#include "worker/engine/exec/backend_cuda/activity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stretto::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr ActivityTolerance kExact = {.edge = 0, .gap = 0, .most_shift = 0};

LaneIntervals Compute(std::vector<Interval> segments) {
  return {.name = "compute", .stream = 7, .communicates = false, .segments = std::move(segments)};
}
LaneIntervals Comm(std::vector<Interval> segments) {
  return {.name = "comm.tp", .stream = 8, .communicates = true, .segments = std::move(segments)};
}
DeviceActivity On(uint32_t stream, Interval at, const std::string& name = "gemm") {
  return {.stream = stream, .name = name, .at = at};
}

TEST(CompareWithLedgerTest, AgreesToTheNanosecondWhereBothSayTheSame) {
  const LedgerComparison comparison =
      CompareWithLedger({On(7, {100, 200}), On(8, {150, 250}), On(7, {200, 300})},
                        {Compute({{100, 300}}), Comm({{150, 250}})}, kExact);
  EXPECT_TRUE(comparison.agrees);
  EXPECT_EQ(comparison.shift, 0);
  EXPECT_EQ(comparison.lanes[0].activity, 200);
  EXPECT_EQ(comparison.lanes[0].ledger, 200);
  EXPECT_EQ(comparison.lanes[1].activity, 100);
  EXPECT_EQ(comparison.lanes[0].worst_segment, -1);
}

TEST(CompareWithLedgerTest, KernelsThatOverlapOnALaneCountOnce) {
  const LedgerComparison comparison = CompareWithLedger(
      {On(7, {100, 200}), On(7, {150, 300}), On(7, {160, 170})}, {Compute({{100, 300}})}, kExact);
  EXPECT_EQ(comparison.lanes[0].activity, 200);
  EXPECT_TRUE(comparison.agrees);
}

TEST(CompareWithLedgerTest, AGapBetweenKernelsIsTheLedgersMistakeBeyondItsTolerance) {
  const std::vector<DeviceActivity> activities = {On(7, {0, 1000}), On(7, {5000, 9000})};
  const std::vector<LaneIntervals> lanes = {Compute({{0, 9000}})};
  const LedgerComparison comparison = CompareWithLedger(activities, lanes, kExact);
  EXPECT_FALSE(comparison.agrees);
  EXPECT_EQ(comparison.lanes[0].empty, 4000);
  EXPECT_EQ(comparison.lanes[0].unseen, 0);
  EXPECT_EQ(comparison.lanes[0].worst_segment, 0);
  EXPECT_EQ(comparison.lanes[0].worst_empty, 4000);
  EXPECT_THAT(comparison.Describe(), HasSubstr("compute: active 0.005 ms, ledger 0.009 ms, unseen "
                                               "0.000 ms, empty 0.004 ms, most in segment 0: "
                                               "0.004 ms, DISAGREES"));

  // Two kernels and one segment have three gaps; a segment has two edges.
  EXPECT_FALSE(CompareWithLedger(activities, lanes, {.edge = 0, .gap = 1333}).agrees);
  EXPECT_TRUE(CompareWithLedger(activities, lanes, {.edge = 0, .gap = 1334}).agrees);
  EXPECT_FALSE(CompareWithLedger(activities, lanes, {.edge = 1999, .gap = 0}).agrees);
  EXPECT_TRUE(CompareWithLedger(activities, lanes, {.edge = 2000, .gap = 0}).agrees);
}

TEST(CompareWithLedgerTest, TheSegmentWithMostEmptyTimeIsNamed) {
  const LedgerComparison comparison =
      CompareWithLedger({On(7, {0, 90}), On(7, {100, 150}), On(7, {200, 300})},
                        {Compute({{0, 100}, {100, 200}, {200, 300}})}, kExact);
  EXPECT_EQ(comparison.lanes[0].empty, 60);
  EXPECT_EQ(comparison.lanes[0].worst_segment, 1);
  EXPECT_EQ(comparison.lanes[0].worst_empty, 50);
}

TEST(CompareWithLedgerTest, ActivityInNoSegmentIsTheLedgersMistake) {
  const std::vector<DeviceActivity> activities = {On(7, {0, 100}, "a"), On(7, {90, 400}, "b"),
                                                  On(7, {500, 600}, "c")};
  const std::vector<LaneIntervals> lanes = {Compute({{0, 100}, {500, 600}})};
  const LedgerComparison comparison = CompareWithLedger(activities, lanes, kExact);
  EXPECT_FALSE(comparison.agrees);
  EXPECT_EQ(comparison.lanes[0].unseen, 300);
  EXPECT_EQ(comparison.lanes[0].empty, 0);
  EXPECT_EQ(comparison.lanes[0].most_unseen, "b");
  EXPECT_THAT(comparison.Describe(), HasSubstr("most unseen b, DISAGREES"));
  // Four edges; gaps are no excuse.
  EXPECT_FALSE(CompareWithLedger(activities, lanes, {.edge = 74, .gap = 1000}).agrees);
  EXPECT_TRUE(CompareWithLedger(activities, lanes, {.edge = 75, .gap = 0}).agrees);
}

TEST(CompareWithLedgerTest, ALaneWithoutAnyActivityDisagrees) {
  const LedgerComparison comparison = CompareWithLedger({}, {Compute({{0, 100'000}})});
  EXPECT_FALSE(comparison.agrees);
  EXPECT_EQ(comparison.lanes[0].empty, 100'000);
}

// Its data was ready, its kernel waited for SMs: that is communication.
TEST(CompareWithLedgerTest, CommunicationMayBeginBeforeItsKernel) {
  const std::vector<DeviceActivity> activities = {On(8, {50'000, 100'000}, "AllReduce")};
  EXPECT_TRUE(CompareWithLedger(activities, {Comm({{0, 100'000}})}, kExact).agrees);
  EXPECT_FALSE(CompareWithLedger(activities, {Comm({{60'000, 100'000}})}, kExact).agrees);
}

TEST(CompareWithLedgerTest, ALedgerThatIsLateAsAWholeAgrees) {
  const std::vector<DeviceActivity> activities = {On(7, {1000, 2000}), On(8, {1500, 3000})};
  const std::vector<LaneIntervals> lanes = {Compute({{21'000, 22'000}}), Comm({{21'500, 23'000}})};
  ActivityTolerance tolerance = kExact;
  tolerance.most_shift = 20'000;
  const LedgerComparison comparison = CompareWithLedger(activities, lanes, tolerance);
  EXPECT_TRUE(comparison.agrees);
  EXPECT_EQ(comparison.shift, 20'000);
  EXPECT_THAT(comparison.Describe(), HasSubstr("shift 20.0 us; "));
  EXPECT_THAT(comparison.Describe(), Not(HasSubstr("DISAGREES")));

  tolerance.most_shift = 19'999;
  EXPECT_FALSE(CompareWithLedger(activities, lanes, tolerance).agrees);
}

// One lane alone cannot be late.
TEST(CompareWithLedgerTest, AShiftIsOneForAllLanes) {
  ActivityTolerance tolerance = kExact;
  tolerance.most_shift = 1000;
  const LedgerComparison comparison =
      CompareWithLedger({On(7, {100, 200}), On(8, {100, 200})},
                        {Compute({{150, 250}}), Comm({{100, 200}})}, tolerance);
  EXPECT_EQ(comparison.shift, 50);
  EXPECT_TRUE(comparison.lanes[0].agrees);
  EXPECT_FALSE(comparison.lanes[1].agrees);
  EXPECT_FALSE(comparison.agrees);
}

// A ledger that ends early has missed the last kernel; that is no shift.
TEST(CompareWithLedgerTest, ALedgerIsNeverEarly) {
  const LedgerComparison comparison =
      CompareWithLedger({On(7, {0, 100'000}), On(7, {100'000, 200'000}, "last")},
                        {Compute({{0, 100'000}})}, {.edge = 2000, .gap = 0});
  EXPECT_EQ(comparison.shift, 0);
  EXPECT_FALSE(comparison.agrees);
  EXPECT_EQ(comparison.lanes[0].most_unseen, "last");
}

TEST(CompareWithLedgerTest, OtherStreamsArePassedOver) {
  const LedgerComparison comparison = CompareWithLedger(
      {On(7, {0, 100}), On(3, {0, 5000}, "memcpy")}, {Compute({{0, 100}})}, kExact);
  EXPECT_TRUE(comparison.agrees);
}

TEST(CompareWithLedgerTest, TheDefaultToleranceCatchesAPercentOfALongStep) {
  // A thousand kernels of 100 us in ten segments, 2 us apart.
  std::vector<DeviceActivity> activities;
  std::vector<Interval> segments;
  for (int64_t k = 0; k < 1000; ++k) {
    activities.push_back(On(7, {k * 102'000, k * 102'000 + 100'000}));
    if (k % 100 == 0) segments.push_back({k * 102'000, (k + 99) * 102'000 + 100'000});
  }
  EXPECT_TRUE(CompareWithLedger(activities, {Compute(segments)}).agrees);
  segments[3].end += 10'000'000;  // 10 ms of 102 that no kernel filled
  for (size_t i = 4; i < segments.size(); ++i) {
    segments[i].begin += 10'000'000;
    segments[i].end += 10'000'000;
  }
  for (size_t k = 400; k < 1000; ++k) {
    activities[k].at.begin += 10'000'000;
    activities[k].at.end += 10'000'000;
  }
  const LedgerComparison comparison = CompareWithLedger(activities, {Compute(segments)});
  EXPECT_FALSE(comparison.agrees);
  EXPECT_EQ(comparison.lanes[0].worst_segment, 3);
}

}  // namespace
}  // namespace stretto::cuda
