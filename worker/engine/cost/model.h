// SPDX-License-Identifier: Apache-2.0
#pragma once
// The durations of operations. Pure and deterministic; plain values.
//
// A computation takes flops / rate + bytes / bandwidth (work.h), without overlap of the two: the
// pessimistic end of the roofline (Williams et al. 2009). A collective takes the steps of a ring,
// each latency + bytes / bandwidth of the port that its ring crosses most slowly (topology.h). A
// table of measured durations takes precedence over both.
//
// Two operations that run at once slow each other down by one factor for each side (contention.h).

#include <limits>

#include "absl/status/status.h"
#include "worker/engine/cost/contention.h"
#include "worker/engine/cost/table.h"
#include "worker/engine/cost/topology.h"
#include "worker/engine/program/program.h"

namespace stretto {

// The rates of one rank. At the default of infinity, the work costs nothing.
struct Machine {
  double flops_per_second = std::numeric_limits<double>::infinity();
  double bytes_per_second = std::numeric_limits<double>::infinity();  // of memory
};

struct CostModel {
  Machine machine = {};
  Interconnect interconnect = {};
  Contention contention = {};  // of pairs that `pairs` does not have
  PairTable pairs = {};
  CostTable table = {};

  // Returns the seconds that an operation takes when nothing else runs: finite and not negative.
  // The time of a collective starts when all its ranks are ready.
  double Alone(const Program& program, const Op& op) const;
  // Returns what a computation and a collective take from each other while both run.
  const Contention& Together(OpKind computation, CollectiveKind collective) const;
};

// Errors: InvalidArgument naming the field, found and expected.
absl::Status Validate(const CostModel& model);

}  // namespace stretto
