// SPDX-License-Identifier: Apache-2.0
#pragma once
// The figures of merit of a schedule, from medians of measured times (docs/BENCHMARKS.md, "The
// overlap benchmark"; DESIGN section 6). Pure functions of numbers.

#include <string>

namespace stretto::bench {

// Seconds of forward, of backward, of both together ("step"), or of the passes that have partners
// ("paired", StepTimes), without the optimizer.
struct PhaseMedians {
  double t_comp = 0;           // megatron_sync, unsliced, without its collectives
  double t_comm = 0;           // its collectives alone
  double comm_cpu = 0;         // CPU time of the process in t_comm
  double t_serial = 0;         // megatron_sync
  double t_serial_sliced = 0;  // the schedule's slices in canonical order on one lane
  double t_overlap = 0;        // the schedule
  double t_comp_sliced = 0;    // the schedule without its collectives
  double hidden_interval = 0;  // |C and M| / |M| of the schedule

  double ideal() const;         // max(t_comp + comm_cpu, t_comm): all that can be hidden is
  double bound() const;         // the same with t_comp_sliced if that is shorter
  double hidden_saved() const;  // (t_serial_sliced - t_overlap) / t_comm; 0 without communication
  double hidden() const;        // the smaller of the two hidden shares
};

struct Figures {
  PhaseMedians forward = {}, backward = {}, step = {}, paired = {};
  int micro_batches = 1;
  bool mixes_phases = false;

  double ideal_step() const { return step.ideal(); }
  double ideal_phase() const { return forward.ideal() + backward.ideal(); }
  // The ideal of schedules that run forward of each micro-batch together with backward of the one
  // before: the first forward and the last backward are alone, and together they are one
  // micro-batch of which the phases are apart.
  double ideal_pairs() const {
    return (ideal_phase() + (micro_batches - 1) * ideal_step()) / micro_batches;
  }
  // The valid ideal: the sum of the phases' ideals, unless the schedule mixes the phases.
  double ideal() const { return mixes_phases ? ideal_step() : ideal_phase(); }
  // What the schedule cannot be faster than. It can be faster than its ideal, because slices that
  // fit a cache compute faster than the whole.
  double bound() const { return mixes_phases ? step.bound() : forward.bound() + backward.bound(); }
};

// Returns "NAME: found ..., expected ..." if a time is below 0.99 of its lower bound, which is
// impossible; else an empty string.
std::string MeasuringError(const std::string& name, double seconds, const std::string& bound_name,
                           double bound);

}  // namespace stretto::bench
