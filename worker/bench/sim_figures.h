// SPDX-License-Identifier: Apache-2.0
#pragma once
// The figures of `stretto-bench sim`: the simulated step of a schedule against the synchronous one.

#include <vector>

#include "absl/status/statusor.h"
#include "worker/bench/known_costs.h"
#include "worker/engine/cost/model.h"
#include "worker/engine/exec/executor.h"
#include "worker/engine/exec/ledger.h"
#include "worker/engine/program/program.h"
#include "worker/engine/schedule/search/find_weave.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

// The communication of one direction of the step, in seconds. Recomputation counts as backward.
struct PassFigures {
  double communication = 0;  // union of its collectives' intervals
  double exposed = 0;        // the part of it without concurrent computation

  double exposed_share() const { return communication > 0 ? exposed / communication : 0; }
};

struct StepFigures {
  std::vector<Interval> intervals;
  StepLedger ledger;
  PassFigures forward, backward;
};

struct SimFigures {
  Program program;  // of the schedule
  StepFigures step;
  // The same without contention. One minus its exposed share is the maximum that this order could
  // hide on any link and core at these speeds.
  StepFigures uncontended;
  double open_tails_seconds = 0;  // of the schedule, summed over micro-batches and optimizer
  // megatron_sync, not sliced, of the same model, micro-batches, recomputation and sequence
  // parallelism.
  double sync_seconds = 0;
  // Sums over that program alone: of its computations, and of its collectives (DESIGN section 6).
  double t_comp = 0, t_comm = 0;
  // Of a schedule that weaves. The plan of the spec is the given one, and the default plan if the
  // spec has none.
  std::vector<FoundWeave> cells;
  // The plans that are the shortest with barriers; none beyond kMostBlockLayers.
  std::vector<FoundWeave> blocks;
  double t_ideal_step = 0;  // max(t_comp + CPU time of communication, t_comm)
  KnownCosts known;         // of the schedule's operations
};

StepFigures FiguresOf(const Program& program, std::vector<Interval> intervals);

// With `find_plan`, the cells of a schedule that weaves are in the order that is the shortest at
// these costs, otherwise in that of the spec. Errors: those of BuildPlan, of ExpectKnown and
// of Simulate.
absl::StatusOr<SimFigures> RunSim(EngineSpec spec, const CostModel& cost, bool find_plan);

}  // namespace stretto
