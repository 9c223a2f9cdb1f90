// SPDX-License-Identifier: Apache-2.0
#pragma once
// The durations of operations. Pure and deterministic; plain values.
//
// A computation takes flops / rate + bytes / bandwidth (work.h), without overlap of the two: the
// pessimistic end of the roofline (Williams et al. 2009). A collective takes the steps of a ring,
// each latency + bytes / bandwidth of the port that its ring crosses most slowly (topology.h). A
// table of measured durations takes precedence over both.
//
// Two operations that run at once slow each other down by one factor for each side (Contention).
// Planned: a second table with measured durations of pairs of segments.

#include <limits>

#include "absl/status/status.h"
#include "worker/engine/cost/table.h"
#include "worker/engine/cost/topology.h"
#include "worker/engine/program/program.h"

namespace stretto {

// The rates of one rank. At the default of infinity, the work costs nothing.
struct Machine {
  double flops_per_second = std::numeric_limits<double>::infinity();
  double bytes_per_second = std::numeric_limits<double>::infinity();  // of memory
};

// The shares of speed that each side loses while the other runs on the same rank, each at least 0
// and below 1.
struct Contention {
  double compute = 0;        // the share of a core, or of the SMs, that communication burns
  double communication = 0;  // the slow-down of a transfer under compute
};

struct CostModel {
  Machine machine = {};
  Interconnect interconnect = {};
  Contention contention = {};
  CostTable table = {};

  // Returns the seconds that an operation takes when nothing else runs: finite and not negative.
  // The time of a collective starts when all its ranks are ready.
  double Alone(const Program& program, const Op& op) const;
};

// Errors: InvalidArgument naming the field, found and expected.
absl::Status Validate(const CostModel& model);

}  // namespace stretto
