// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/overlap/simulate.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/exec/intervals.h"
#include "tests/worker/engine/program/programs.h"
#include "worker/engine/exec/backend_sim/timeline.h"

namespace stretto::bench {
namespace {

// compute | a | b     |
// comm.tp |   | r   |
constexpr char kOverlap[] =
    "program rank=0 world=2\n"
    "group tp 0,1\n"
    "lane compute\n"
    "lane comm.tp\n"
    "buffer %0 x f32 4 input\n"
    "buffer %1 y f32 8 input\n"
    "0 compute zero a fwd out=%0\n"
    "1 comm.tp all_reduce r fwd in=%0 out=%0 on=tp wait=0\n"
    "2 compute zero b bwd out=%1\n";

constexpr char kSerial[] =
    "program rank=0 world=2\n"
    "group tp 0,1\n"
    "lane serial\n"
    "buffer %0 x f32 4 input\n"
    "buffer %1 y f32 8 input\n"
    "0 serial zero a fwd out=%0\n"
    "1 serial all_reduce r fwd in=%0 out=%0 on=tp\n"
    "2 serial zero b bwd out=%1\n";

constexpr char kComputation[] =
    "program rank=0 world=2\n"
    "group tp 0,1\n"
    "lane compute\n"
    "buffer %0 x f32 4 input\n"
    "buffer %1 y f32 8 input\n"
    "0 compute zero a fwd out=%0\n"
    "1 compute zero b bwd out=%1\n";

constexpr char kCommunication[] =
    "program rank=0 world=2\n"
    "group tp 0,1\n"
    "lane comm.tp\n"
    "buffer %0 x f32 4 input\n"
    "0 comm.tp all_reduce r fwd in=%0 out=%0 on=tp\n";

// Steps from 0 to the end of the last operation.
Measured MeasuredOf(const char* program, std::vector<std::vector<Interval>> runs) {
  Measured measured;
  measured.program = ProgramOf(program);
  for (std::vector<Interval>& intervals : runs) {
    Run run;
    run.slowest.step.seconds = static_cast<double>(SpanOf(intervals).end) * 1e-9;
    run.intervals = std::move(intervals);
    measured.runs.push_back(std::move(run));
  }
  return measured;
}

// a takes 1 s, b 4 s; r moves its 16 bytes in 3 s.
CostModel Cost() {
  CostModel cost;
  cost.interconnect.bytes_per_second = 16.0 / 3;
  cost.table = TableOf(MeasuredOf(
      kComputation, {{At(0, 2), At(2, 4)}, {At(0, 1), At(1, 5)}, {At(0, 9), At(9, 20)}}));
  return cost;
}

TEST(SimulateTest, TheTableIsOfTheMedianStep) {
  const Program program = ProgramOf(kComputation);
  const CostModel cost = Cost();

  EXPECT_DOUBLE_EQ(cost.Alone(program, program.ops[0]), 1);
  EXPECT_DOUBLE_EQ(cost.Alone(program, program.ops[1]), 4);
}

TEST(SimulateTest, OperationsAlikeTakeTheirMean) {
  constexpr char kTwice[] =
      "program rank=0 world=2\n"
      "group tp 0,1\n"
      "lane compute\n"
      "buffer %0 x f32 4 input\n"
      "0 compute zero a fwd out=%0\n"
      "1 compute zero b bwd out=%0\n";
  CostModel cost;
  cost.table = TableOf(MeasuredOf(kTwice, {{At(0, 1), At(1, 5)}}));

  const Program program = ProgramOf(kTwice);
  EXPECT_DOUBLE_EQ(cost.Alone(program, program.ops[0]), 2.5);
}

TEST(SimulateTest, TheLinkTakesAsLongAsTheMedianStep) {
  const Measured measured = MeasuredOf(kCommunication, {{At(0, 9)}, {At(0, 2)}, {At(0, 3)}});
  CostModel cost;
  cost.interconnect = LinkOf(measured, 0.5);

  EXPECT_DOUBLE_EQ(cost.interconnect.latency_seconds, 0.5);
  EXPECT_DOUBLE_EQ(cost.Alone(measured.program, measured.program.ops[0]), 3);
}

TEST(SimulateTest, ALinkThatCarriedNothingIsFree) {
  EXPECT_EQ(LinkOf(MeasuredOf(kComputation, {{At(0, 1), At(1, 2)}}), 0).bytes_per_second,
            std::numeric_limits<double>::infinity());
}

TEST(SimulateTest, SlowdownIsOfOperationsThatRanUnderTheOtherSide) {
  const CostModel cost = Cost();
  // r, all of it under b, takes 4.5 s; b is not all under r.
  Slowdown slowdown = SlowdownOf(MeasuredOf(kOverlap, {{At(0, 1), At(1, 5.5), At(1, 7)}}), cost);
  EXPECT_DOUBLE_EQ(slowdown.communication, 1.5);
  EXPECT_DOUBLE_EQ(slowdown.compute, 1);

  // b, all of it under r, takes 5 s.
  slowdown = SlowdownOf(MeasuredOf(kOverlap, {{At(0, 1), At(1, 9), At(1, 6)}}), cost);
  EXPECT_DOUBLE_EQ(slowdown.communication, 1);
  EXPECT_DOUBLE_EQ(slowdown.compute, 1.25);
}

TEST(SimulateTest, TheOrderBoundsWhatCanBeHidden) {
  const Program overlap = ProgramOf(kOverlap), serial = ProgramOf(kSerial);
  const Program communication = ProgramOf(kCommunication);

  const absl::StatusOr<Figures> figures = SimulateFigures({overlap, serial, communication}, Cost());

  ASSERT_TRUE(figures.ok()) << figures.status();
  EXPECT_DOUBLE_EQ(figures->step.t_overlap, 5);        // a, then r under b
  EXPECT_DOUBLE_EQ(figures->step.t_serial_sliced, 8);  // a, r, b
  EXPECT_DOUBLE_EQ(figures->step.t_comm, 3);
  EXPECT_DOUBLE_EQ(figures->step.hidden(), 1);
}

}  // namespace
}  // namespace stretto::bench
