// SPDX-License-Identifier: Apache-2.0
#include "gtest/gtest.h"
#include "tests/worker/engine/program/programs.h"
#include "worker/engine/exec/backend_sim/grid.h"

namespace stretto {
namespace {

constexpr int64_t kMs = 1'000'000;

constexpr char kGridText[] =
    "program rank=0 world=2\n"
    "group tp 0,1\n"
    "lane compute\n"
    "lane comm.tp\n"
    "buffer %0 x f32 4 input\n"
    "0 compute gelu L0.fc1 fwd mb0 s0 in=%0 out=%0\n"
    "1 comm.tp all_reduce L0.fc1 fwd mb0 s0 in=%0 out=%0 on=tp wait=0\n"
    "2 compute gelu_grad L0.fc1 bwd mb0 s0 in=%0,%0 out=%0 wait=1\n"
    "3 compute gemm_wgrad L0.fc1 bwd mb0 s1 in=%0,%0,%0 out=%0\n"
    "4 compute gelu L1.fc1 fwd mb1 s0 in=%0 out=%0\n";

std::vector<Interval> Sample() {
  return {{0, 10 * kMs},
          {10 * kMs, 25 * kMs},
          {25 * kMs, 30 * kMs},
          {30 * kMs, 40 * kMs},
          {40 * kMs, 40 * kMs}};
}

TEST(SimGridTest, DrawsABoxForEachOperation) {
  EXPECT_EQ(DrawGrid(ProgramOf(kGridText), Sample(), {0, 40 * kMs}, 40),
            "0.000 ms to 40.000 ms, a column is 1000.000 us\n"
            "compute |fc1.0    |..............|d(fc|w(fc1.1) \n"
            "comm.tp ..........|AR(fc1.0)     |..............\n");
}

TEST(SimGridTest, AWindowCutsBoxes) {
  EXPECT_EQ(DrawGrid(ProgramOf(kGridText), Sample(), {5 * kMs, 25 * kMs}, 20),
            "5.000 ms to 25.000 ms, a column is 1000.000 us\n"
            "compute |fc1.|..............\n"
            "comm.tp .....|AR(fc1.0)     \n");
}

TEST(SimGridTest, NothingToDrawSaysSo) {
  EXPECT_EQ(DrawGrid(ProgramOf(kGridText), Sample(), {kMs, kMs}, 20), "nothing to draw\n");
}

// A hundred short operations: boxes of whole passes.
TEST(SimGridTest, ShortOperationsJoin) {
  std::string text = "program rank=0 world=1\nlane compute\nbuffer %0 x f32 4 input\n";
  std::vector<Interval> intervals;
  for (int i = 0; i < 100; ++i) {
    text += std::to_string(i) + " compute gelu L" + std::to_string(i % 50) + ".act " +
            (i < 50 ? "fwd" : "bwd") + " mb0 s0 in=%0 out=%0\n";
    intervals.push_back({i * kMs, (i + 1) * kMs});
  }
  EXPECT_EQ(DrawGrid(ProgramOf(text), intervals, {0, 100 * kMs}, 20),
            "0.000 ms to 100.000 ms, a column is 5000.000 us\n"
            "compute |fwd mb0  |bwd mb0  \n");
}

TEST(SimGridTest, ALayersWindowLeavesOutMovedWeightGradients) {
  const Program program = ProgramOf(kGridText);
  const Interval backward = LayerWindow(program, Sample(), 0, Phase::kBackward);
  EXPECT_EQ(backward.begin, 25 * kMs);
  EXPECT_EQ(backward.end, 30 * kMs);
  const Interval forward = LayerWindow(program, Sample(), 0, Phase::kForward);
  EXPECT_EQ(forward.begin, 0);
  EXPECT_EQ(forward.end, 25 * kMs);
  EXPECT_EQ(LayerWindow(program, Sample(), 7, Phase::kForward).end, 0);
}

TEST(SimGridTest, TheLedgerSumsToTheStep) {
  const StepLedger ledger = ComputeLedger(ProgramOf(kGridText), Sample(), {}, {0, 50 * kMs});
  EXPECT_EQ(PrintLedger(ledger),
            "compute_alone forward                    10.000 ms   20.0 %\n"
            "compute_alone backward                   15.000 ms   30.0 %\n"
            "exposed tp forward                       15.000 ms   30.0 %\n"
            "idle                                     10.000 ms   20.0 %\n"
            "step                                     50.000 ms  100.0 %\n");
}

}  // namespace
}  // namespace stretto
