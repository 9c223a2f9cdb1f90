// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the simulated backend says of a schedule, from costs measured in the same run: how much of
// the communication its order could hide, and how long its step should take.

#include <vector>

#include "absl/status/statusor.h"
#include "worker/bench/overlap/figures.h"
#include "worker/bench/overlap/rig.h"
#include "worker/engine/cost/model.h"

namespace stretto::bench {

// The run whose step is the median; `measured` has one at least.
const Run& MedianRun(const Measured& measured);

// Means by operation, of computations, over the run whose step is the median: their sum is that
// step, which a sum of medians is not.
CostTable TableOf(const Measured& compute);

// The link on which the collectives of `communication` take as long as its median step, with
// `latency_seconds` for each step of a ring.
Interconnect LinkOf(const Measured& communication, double latency_seconds);

struct Slowdown {
  // Time that operations took that ran under the other side nearly all along, over the time they
  // take alone. 1 where there were none.
  double compute = 1;
  double communication = 1;  // also holds the wait for a peer that comes late

  Contention AsContention() const;
};

// `alone` gives the times alone.
Slowdown SlowdownOf(const Measured& overlap, const CostModel& alone);

// What is simulated: the schedule, its own slices on one lane, and the unsliced collectives.
struct Simulands {
  const Program& overlap;
  const Program& serial_sliced;
  const Program& communication;
};

// t_comm, t_serial_sliced, t_overlap and hidden_interval of each phase; the rest is zero. Errors:
// those of Simulate.
absl::StatusOr<Figures> SimulateFigures(const Simulands& programs, const CostModel& cost);

}  // namespace stretto::bench
