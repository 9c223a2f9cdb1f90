#include "worker/engine/schedule/passes.h"

namespace stretto {

absl::Status SerialiseLanes(const EngineSpec&, StepProgram* step) {
  for (Unit& unit : step->units) {
    for (size_t i = 1; i < unit.ops.size(); ++i) {
      // The operation before it comes after all that it waited for.
      if (unit.ops[i].lane != unit.ops[i - 1].lane) unit.ops[i].waits = {static_cast<int>(i) - 1};
    }
  }
  return absl::OkStatus();
}

}  // namespace stretto
