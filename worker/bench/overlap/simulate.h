// SPDX-License-Identifier: Apache-2.0
#pragma once
// Simulates a schedule, and finds the costs of a run for that.

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/bench/overlap/figures.h"
#include "worker/bench/overlap/rig.h"
#include "worker/engine/cost/model.h"
#include "worker/engine/cost/profile.h"

namespace stretto::bench {

// Returns the run whose step is the median; `measured` must have at least one.
const Run& MedianRun(const Measured& measured);

// Returns mean times of computations in seconds, by OperationKey.
std::map<std::string, double> MeanSeconds(const Program& program,
                                          absl::Span<const Interval> intervals);

// Returns mean times of computations by operation from the run whose step is the median. Their sum
// is that step; a sum of medians would not be.
CostTable TableOf(const Measured& compute);

// Returns the link on which the collectives of `communication` take as long as in its median step,
// with `latency_seconds` for each step of a ring.
Interconnect LinkOf(const Measured& communication, double latency_seconds);

struct Slowdown {
  // Time of operations that ran almost entirely under the other side, relative to their time alone.
  // 1 if there were none.
  double compute = 1;
  double communication = 1;  // includes waits for a peer that comes late
};

// `alone` has the times without the other side.
Slowdown SlowdownOf(const Measured& overlap, const CostModel& alone);

// The simulated programs: the schedule, its slices on one lane, and the unsliced collectives.
struct Simulands {
  const Program& overlap;
  const Program& serial_sliced;
  const Program& communication;
};

// Returns t_comm, t_serial_sliced, t_overlap, t_comp_sliced and hidden_interval of each phase;
// other fields are zero. Errors: those of Simulate.
absl::StatusOr<Figures> SimulateFigures(const Simulands& programs, const CostModel& cost);

// The two of them that are compared with measured ones.
struct Prediction {
  double t_overlap = 0, t_comp_sliced = 0;
};
absl::StatusOr<Prediction> Predict(const Simulands& programs, const CostProfile& costs);

}  // namespace stretto::bench
