// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long operations take. Pure and deterministic; plain values.
//
// A computation takes flops / rate + bytes / bandwidth (work.h), the two not overlapping: the
// cautious end of the roofline (Williams et al. 2009). A collective takes the steps of a ring, each
// latency + bytes / bandwidth (LinkStepsOf in worker/comm/collective/collective.h has the numbers).
// A table of measured durations goes before either.
//
// What two operations cost when they run at once is one factor for each side (Contention) until
// pairs of segments are measured; they will come as a second table beside this one.

#include <limits>

#include "absl/status/status.h"
#include "worker/engine/cost/table.h"
#include "worker/engine/program/program.h"

namespace stretto {

// One rank's; what is left at infinity costs nothing.
struct Machine {
  double flops_per_second = std::numeric_limits<double>::infinity();
  double bytes_per_second = std::numeric_limits<double>::infinity();  // of memory
};

struct Interconnect {
  double bytes_per_second = std::numeric_limits<double>::infinity();  // a rank's, each direction
  double latency_seconds = 0;                                         // per step of the ring
};

// Shares lost by either side while the other runs on the same rank, each at least 0 and below 1.
struct Contention {
  double compute = 0;        // the share of a core, or of the SMs, that communication burns
  double communication = 0;  // the slow-down of a transfer under compute
};

struct CostModel {
  Machine machine = {};
  Interconnect interconnect = {};
  Contention contention = {};
  CostTable table = {};

  // Seconds that an operation takes when nothing else runs: finite and not negative. A collective's
  // count from the moment that all its ranks are ready.
  double Alone(const Program& program, const Op& op) const;
};

// InvalidArgument naming the field, found and expected.
absl::Status Validate(const CostModel& model);

}  // namespace stretto
