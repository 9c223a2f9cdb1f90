// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/schedule/passes.h"

namespace stretto {

namespace {

// Declares the memory of a buffer to be input, which the host fills before the step.
void MakeInput(StepProgram* step, BufferId id) {
  const BufferId root = RootOf(step->buffers, id).buffer;
  for (BufferId other : step->buffers.ids()) {
    if (RootOf(step->buffers, other).buffer == root)
      step->buffers[other].arena = ArenaClass::kInput;
  }
}

}  // namespace

// The results that collectives would have written to other buffers become inputs of the step.
absl::Status RemoveCollectives(const EngineSpec&, StepProgram* step) {
  for (Unit& unit : step->units) {
    for (const Op& op : unit.ops) {
      const bool elsewhere = IsCollective(op.kind) && op.in[0] != op.out[0];
      if (elsewhere) MakeInput(step, op.out[0]);
    }
    std::erase_if(unit.ops, [](const Op& op) { return IsCollective(op.kind); });
  }
  return absl::OkStatus();
}

// No compute operation is left to write what the collectives read, so those buffers become inputs.
absl::Status KeepCollectives(const EngineSpec&, StepProgram* step) {
  for (Unit& unit : step->units) {
    std::erase_if(unit.ops, [](const Op& op) { return !IsCollective(op.kind); });
    for (const Op& op : unit.ops) MakeInput(step, op.in[0]);
  }
  return absl::OkStatus();
}

}  // namespace stretto
