// SPDX-License-Identifier: Apache-2.0
#pragma once
// The passes between Emit and execution, one per file. Each is a pure function that clones, merges,
// orders, assigns or removes; none invents mathematics. BuildPlan runs them in this order and
// verifies after each. Each schedule's file draws its timeline and says where it is from.

#include <array>

#include "absl/status/status.h"
#include "proto/spec/schedules.h"
#include "worker/engine/program/program.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

// Backward gets its own copies of what spec.schedule.recompute names: the operations that produce
// them are cloned in front of their first use, phase kRecompute.
absl::Status RecomputeActivations(const EngineSpec& spec, StepProgram* step);

// Where spec.schedule.merge_wgrads says so: the weight gradient products of all slices of so many
// micro-batches become one over all their rows, at the place of the last. The unit of a micro-batch
// becomes one of so many, one after the other, its roles. Only what the products read is kept for
// all of them.
absl::Status MergeWgrads(const EngineSpec& spec, StepProgram* step);

// Schedules: each orders the unit of a micro-batch, or role after role of several (canonical order,
// one lane). What each takes is in proto/spec/schedules.h.
absl::Status MegatronSync(const EngineSpec& spec, StepProgram* step);
absl::Status MegatronAsync(const EngineSpec& spec, StepProgram* step);
absl::Status DominoRow(const EngineSpec& spec, StepProgram* step);
absl::Status DominoCol(const EngineSpec& spec, StepProgram* step);
absl::Status DominoHybrid(const EngineSpec& spec, StepProgram* step);
absl::Status DominoPaper(const EngineSpec& spec, StepProgram* step);
absl::Status DominoRelease1(const EngineSpec& spec, StepProgram* step);
absl::Status DominoIntra(const EngineSpec& spec, StepProgram* step);
absl::Status DominoInter(const EngineSpec& spec, StepProgram* step);
absl::Status Nanotron(const EngineSpec& spec, StepProgram* step);

struct Pass {
  const char* name;
  absl::Status (*run)(const EngineSpec&, StepProgram*);
};

// The pass of each schedule, in the order of kSchedules (proto/spec/schedules.h).
inline constexpr std::array<Pass, kSchedules.size()> kOrders = {{
    {"megatron_sync", MegatronSync},
    {"megatron_async", MegatronAsync},
    {"domino_row", DominoRow},
    {"domino_col", DominoCol},
    {"domino_hybrid", DominoHybrid},
    {"domino_paper", DominoPaper},
    {"domino_release1", DominoRelease1},
    {"domino_intra", DominoIntra},
    {"domino_inter", DominoInter},
    {"nanotron", Nanotron},
}};

// Weight gradients run spec.schedule.defer_wgrads collectives later than the schedule placed them.
absl::Status DeferWgrads(const EngineSpec& spec, StepProgram* step);

// Lets the ends of a micro-batch overlap with what is beside them.
absl::Status CloseTails(const EngineSpec& spec, StepProgram* step);

// Measurement only: T_comp, the program without its collectives; T_comm, its collectives alone.
absl::Status RemoveCollectives(const EngineSpec& spec, StepProgram* step);
absl::Status KeepCollectives(const EngineSpec& spec, StepProgram* step);

// Collectives to lane comm.tp, everything else to lane compute; then the fewest waits that order
// every conflicting pair of accesses, within units and (carried) between instances.
absl::Status AssignLanesAndWaits(const EngineSpec& spec, StepProgram* step);

// For synchronous schedules, after lanes are assigned: where the lane changes within a unit, an
// operation waits for the one before it. A collective then starts only when all compute before it
// is done, and nothing runs under it.
absl::Status SerialiseLanes(const EngineSpec& spec, StepProgram* step);

}  // namespace stretto
