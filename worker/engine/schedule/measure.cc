// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/layout/layout.h"
#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/units.h"

namespace stretto {

namespace {

// Declares that the memory of a buffer has its values before the step. Gradients become state,
// which backends do not mirror in host memory, and activations become input. Parameters are given.
void MakeGiven(StepProgram* step, BufferId id) {
  const BufferId root = RootOf(step->buffers, id).buffer;
  if (step->buffers[root].arena == ArenaClass::kParameter) return;
  const bool state = step->buffers[root].arena == ArenaClass::kGradient ||
                     step->buffers[root].arena == ArenaClass::kOptimizer;
  for (BufferId other : step->buffers.ids()) {
    if (RootOf(step->buffers, other).buffer != root) continue;
    step->buffers[other].arena = state ? ArenaClass::kOptimizer : ArenaClass::kInput;
  }
}

// Removes the operations that `goes` selects. What they would have written to other buffers is
// given.
template <class Goes>
void Remove(StepProgram* step, Goes goes) {
  const auto memory = [&](BufferId id) { return RootOf(step->buffers, id).buffer; };
  for (Unit& unit : step->units) {
    for (const Op& op : unit.ops) {
      if (!goes(op) || op.out.empty()) continue;
      const bool in_place = !op.in.empty() && memory(op.in[0]) == memory(op.out[0]);
      if (!in_place) MakeGiven(step, op.out[0]);
    }
    std::erase_if(unit.ops, goes);
  }
}

// Removes all but the operations that `stays` selects. What these read is given: no operation may
// be left that would write it. A receive still writes what its gather reads.
template <class Stays>
void Keep(StepProgram* step, Stays stays) {
  for (Unit& unit : step->units) {
    std::erase_if(unit.ops, [&](const Op& op) { return !stays(op); });
    for (const Op& op : unit.ops) {
      if (!op.in.empty()) MakeGiven(step, op.in[0]);
    }
  }
}

}  // namespace

absl::Status RemoveCollectives(const EngineSpec&, StepProgram* step) {
  Remove(step, [](const Op& op) { return IsCollective(op.kind); });
  return absl::OkStatus();
}

absl::Status KeepCollectives(const EngineSpec&, StepProgram* step) {
  Keep(step, [](const Op& op) { return IsCollective(op.kind); });
  return absl::OkStatus();
}

absl::Status StayWithinStage(const EngineSpec&, StepProgram* step) {
  Remove(step, [](const Op& op) { return IsCollective(op.kind) && op.group != kTpGroup; });
  return absl::OkStatus();
}

absl::Status KeepTransfers(const EngineSpec&, StepProgram* step) {
  Keep(step, MovesBetweenStages);
  return absl::OkStatus();
}

}  // namespace stretto
