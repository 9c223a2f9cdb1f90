// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/schedule/passes.h"

namespace stretto {

absl::Status SerialiseLanes(const EngineSpec&, StepProgram* step) {
  for (Unit& unit : step->units) {
    for (OpId op = 1; op < unit.ops.next(); ++op) {
      // The operation before it comes after all that it waited for.
      if (unit.ops[op].lane != unit.ops[op - 1].lane) unit.ops[op].waits = {op - 1};
    }
  }
  return absl::OkStatus();
}

}  // namespace stretto
