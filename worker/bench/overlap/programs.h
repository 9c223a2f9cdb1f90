// SPDX-License-Identifier: Apache-2.0
#pragma once
// The programs that give a schedule its figures, and medians of their runs.

#include <cstddef>

#include "worker/bench/overlap/figures.h"
#include "worker/bench/overlap/rig.h"

namespace stretto::bench {

// Measurements of a schedule and of the programs that bound it, which schedules share. Borrowed.
struct Programs {
  const Measured *comp, *comm, *serial;            // of megatron_sync, unsliced
  const Measured *overlap, *oracle, *comp_sliced;  // of the schedule
  const Measured* occupied = nullptr;              // only over an emulated link
  size_t last = 0;                                 // the place in a round by which all are timed
};

// Each takes one run or more of every program.
double MedianOfSteps(const Measured& measured);       // forward and backward, in seconds
double MedianOfOptimizers(const Measured& measured);  // in seconds
PhaseMedians MediansOf(const Programs& programs, PhaseSample StepSample::*phase);

}  // namespace stretto::bench
