// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/overlap/figures.h"

#include "gtest/gtest.h"

namespace stretto::bench {
namespace {

TEST(FiguresTest, IdealIsTheLargerOfComputationWithItsCommunicationCpuAndTheLink) {
  EXPECT_DOUBLE_EQ((PhaseMedians{.t_comp = 3, .t_comm = 2, .comm_cpu = 0.5}.ideal()), 3.5);
  EXPECT_DOUBLE_EQ((PhaseMedians{.t_comp = 1, .t_comm = 2, .comm_cpu = 0.5}.ideal()), 2);
}

TEST(FiguresTest, TheSmallerHiddenShareCounts) {
  PhaseMedians phase{.t_comm = 2, .t_serial_sliced = 6, .t_overlap = 4.5, .hidden_interval = 0.9};
  EXPECT_DOUBLE_EQ(phase.hidden_saved(), 0.75);
  EXPECT_DOUBLE_EQ(phase.hidden(), 0.75);

  phase.hidden_interval = 0.6;
  EXPECT_DOUBLE_EQ(phase.hidden(), 0.6);
}

TEST(FiguresTest, WithoutCommunicationNothingIsSaved) {
  EXPECT_DOUBLE_EQ((PhaseMedians{.t_serial_sliced = 6, .t_overlap = 4}.hidden_saved()), 0);
}

// Forward is bound by computation, backward by the link: apart they cannot share their slack.
TEST(FiguresTest, PhasesApartBoundASchedulethatKeepsThemApart) {
  Figures figures{.forward = {.t_comp = 3, .t_comm = 1},
                  .backward = {.t_comp = 1, .t_comm = 3},
                  .step = {.t_comp = 4, .t_comm = 4}};
  EXPECT_DOUBLE_EQ(figures.ideal_step(), 4);
  EXPECT_DOUBLE_EQ(figures.ideal_phase(), 6);
  EXPECT_DOUBLE_EQ(figures.ideal(), 6);

  figures.mixes_phases = true;
  EXPECT_DOUBLE_EQ(figures.ideal(), 4);
}

TEST(FiguresTest, FastSlicesBoundAScheduleByTheirOwnComputation) {
  const PhaseMedians forward = {.t_comp = 3, .t_comm = 1, .comm_cpu = 0.5, .t_comp_sliced = 2.5};
  EXPECT_DOUBLE_EQ(forward.bound(), 3);
  EXPECT_DOUBLE_EQ(forward.ideal(), 3.5);
  // Slower slices are no bound: other schedules need not have them.
  const PhaseMedians backward = {.t_comp = 3, .t_comm = 4, .comm_cpu = 0.5, .t_comp_sliced = 6};
  EXPECT_DOUBLE_EQ(backward.bound(), 4);

  Figures figures{.forward = forward, .backward = backward, .step = backward};
  EXPECT_DOUBLE_EQ(figures.bound(), 7);
  figures.mixes_phases = true;
  EXPECT_DOUBLE_EQ(figures.bound(), 4);
}

// Of four micro-batches, three pairs share their slack, and the two ends together do not.
TEST(FiguresTest, PairsLeaveBothEndsApart) {
  Figures figures{.forward = {.t_comp = 12, .t_comm = 4},
                  .backward = {.t_comp = 4, .t_comm = 12},
                  .step = {.t_comp = 16, .t_comm = 16},
                  .micro_batches = 4};
  EXPECT_DOUBLE_EQ(figures.ideal_pairs(), (24 + 3 * 16) / 4.0);

  figures.micro_batches = 1;  // no pair
  EXPECT_DOUBLE_EQ(figures.ideal_pairs(), figures.ideal_phase());
}

TEST(FiguresTest, BelowItsBoundATimeIsAMeasuringError) {
  EXPECT_EQ(MeasuringError("t", 0.995, "its bound", 1), "");
  EXPECT_EQ(MeasuringError("t", 0.98, "its bound", 1),
            "t: found 0.9800 s, expected at least 0.99 of its bound, 1.0000 s");
}

}  // namespace
}  // namespace stretto::bench
