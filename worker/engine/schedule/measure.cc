#include "worker/engine/schedule/passes.h"

namespace stretto {

absl::Status RemoveCollectives(const EngineSpec&, StepProgram* step) {
  for (Unit& unit : step->units) {
    std::erase_if(unit.ops, [](const Op& op) { return IsCollective(op.kind); });
  }
  return absl::OkStatus();
}

// A collective reads what it reduces; alone, its buffer is an input that the host filled.
absl::Status KeepCollectives(const EngineSpec&, StepProgram* step) {
  for (Unit& unit : step->units) {
    std::erase_if(unit.ops, [](const Op& op) { return !IsCollective(op.kind); });
    for (const Op& op : unit.ops) {
      for (int id : op.in) step->buffers[static_cast<size_t>(id)].arena = ArenaClass::kInput;
    }
  }
  return absl::OkStatus();
}

}  // namespace stretto
