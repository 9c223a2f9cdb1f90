// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `stretto-bench sim` reports: a schedule's simulated step against the synchronous one's.

#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/cost/model.h"
#include "worker/engine/exec/executor.h"
#include "worker/engine/exec/ledger.h"
#include "worker/engine/program/program.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

// The communication of one direction of the step, in seconds. Recomputation belongs to backward.
struct PassFigures {
  double communication = 0;  // union of its collectives' intervals
  double exposed = 0;        // that part of it in which nothing is computed

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
  // The same without contention; one less its exposed shares is the most that any link and core
  // could hide under this order at these speeds.
  StepFigures uncontended;
  double open_tails_seconds = 0;  // of the schedule, micro-batches and optimizer one after another
  double sync_seconds = 0;        // megatron_sync, not sliced, of the same model, micro-batches,
                                  // recomputation and sequence parallelism
  // Of that program, alone: the sum of its computations, and of its collectives (DESIGN section 6).
  double t_comp = 0, t_comm = 0;
  double t_ideal_step = 0;  // max(t_comp + what communication burns of the core, t_comm)
};

StepFigures FiguresOf(const Program& program, std::vector<Interval> intervals);

// Errors: those of BuildPlan and of Simulate.
absl::StatusOr<SimFigures> RunSim(const EngineSpec& spec, const CostModel& cost);

}  // namespace stretto
