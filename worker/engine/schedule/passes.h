#pragma once
// The passes between Emit and execution, one per file. Each is a pure function that orders, assigns
// or removes; none invents mathematics. BuildPlan runs them in this order and verifies after each.

#include "absl/status/status.h"
#include "worker/engine/program/program.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

// Schedules: each orders the units of the step program it is given (canonical order, one lane).
//
// megatron_sync (Shoeybi et al. 2019): no slices, every collective exposed.
//
//   forward   compute | ATT |     | MLP |     | ATT' |
//             comm.tp |     | ARa |     | ARm |      | ARa'
//   backward  compute | d,w(MLP) |     | d,w(ATT) |     |
//             comm.tp |          | ARm |          | ARa |
absl::Status MegatronSync(const EngineSpec& spec, StepProgram* step);

// domino_row (Wang et al. 2024, section 4; own backward order): the batch in slices that take
// turns, half-block by half-block and across layers, so a slice's all-reduce runs under another's
// compute. Backward has its own order, not the mirror of forward: dgrad chain, launch the
// all-reduce, then that half-block's weight gradients.
//
//   forward  compute | ATT0 | ATT1 | MLP0 | MLP1 | ATT0' | ATT1' |   (' = next layer)
//            comm.tp |      | ARa0 | ARa1 | ARm0 | ARm1  | ...
//   backward compute | d(MLP0) | w(MLP0) d(MLP1) | w(MLP1) d(ATT0) | w(ATT0) d(ATT1) |
//            comm.tp |         | AR0             | AR1             | AR0             |
//
// InvalidArgument: a micro-batch of one sequence; spec.schedule.slices is checked by Validate.
absl::Status DominoRow(const EngineSpec& spec, StepProgram* step);

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
