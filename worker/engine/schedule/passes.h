// SPDX-License-Identifier: Apache-2.0
#pragma once
// The passes between Emit and execution, one per file. Each is a pure function that clones, merges,
// orders, assigns or removes operations; none adds mathematics. BuildPlan runs them in this order
// and verifies the program after each. The file of a schedule draws its timeline and cites its
// source.

#include <array>

#include "absl/status/status.h"
#include "proto/spec/schedules.h"
#include "worker/engine/program/program.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

// Clones, with phase kRecompute, the forward operations that spec.schedule.recompute selects. The
// clones run before the first backward operation that needs their results.
absl::Status RecomputeActivations(const EngineSpec& spec, StepProgram* step);

// Merges the weight gradient products of all slices of spec.schedule.merge_wgrads micro-batches
// into one product over all their rows, at the place of the last. The unit of a micro-batch then
// holds that many micro-batches, one after the other, its roles. Only the operands of the products
// are kept for all of them. Does nothing when merge_wgrads is 0.
absl::Status MergeWgrads(const EngineSpec& spec, StepProgram* step);

// Schedules. Each orders the unit of a micro-batch; a unit with several roles is ordered role by
// role. The input is in canonical order on one lane. proto/spec/schedules.h lists the parameters
// that each schedule takes.
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

// Delays each weight gradient of a layer by spec.schedule.defer_wgrads collectives.
absl::Status DeferWgrads(const EngineSpec& spec, StepProgram* step);

// Overlaps the end of a micro-batch with the start of the next, and the last one with the
// optimizer.
absl::Status CloseTails(const EngineSpec& spec, StepProgram* step);

// For measurements only. RemoveCollectives leaves the computation, whose time is T_comp;
// KeepCollectives leaves the collectives, whose time is T_comm.
absl::Status RemoveCollectives(const EngineSpec& spec, StepProgram* step);
absl::Status KeepCollectives(const EngineSpec& spec, StepProgram* step);

// Assigns collectives to lane comm.tp and everything else to lane compute. Then assigns the fewest
// waits that order every conflicting pair of accesses, within units and (carried) between
// instances.
absl::Status AssignLanesAndWaits(const EngineSpec& spec, StepProgram* step);

// For synchronous schedules, after lanes are assigned: wherever the lane changes within a unit, the
// operation waits for the one before it. A collective therefore starts only after all earlier
// computation is done, and no computation runs under it.
absl::Status SerialiseLanes(const EngineSpec& spec, StepProgram* step);

}  // namespace stretto
