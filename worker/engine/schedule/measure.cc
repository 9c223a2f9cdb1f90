// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/schedule/passes.h"

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

}  // namespace

// What collectives would have written to other buffers is given.
absl::Status RemoveCollectives(const EngineSpec&, StepProgram* step) {
  const auto memory = [&](BufferId id) { return RootOf(step->buffers, id).buffer; };
  for (Unit& unit : step->units) {
    for (const Op& op : unit.ops) {
      if (!IsCollective(op.kind) || op.out.empty()) continue;
      const bool in_place = !op.in.empty() && memory(op.in[0]) == memory(op.out[0]);
      if (!in_place) MakeGiven(step, op.out[0]);
    }
    std::erase_if(unit.ops, [](const Op& op) { return IsCollective(op.kind); });
  }
  return absl::OkStatus();
}

// No compute operation is left to write what the collectives read, so it is given.
absl::Status KeepCollectives(const EngineSpec&, StepProgram* step) {
  for (Unit& unit : step->units) {
    std::erase_if(unit.ops, [](const Op& op) { return !IsCollective(op.kind); });
    for (const Op& op : unit.ops) {
      if (!op.in.empty()) MakeGiven(step, op.in[0]);
    }
  }
  return absl::OkStatus();
}

}  // namespace stretto
