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
  for (InstanceId next = 1; next < step->instances.next(); next = next + 1) {
    const IdVector<OpId, Op>& before = step->units[step->instances[next - 1].unit].ops;
    const IdVector<OpId, Op>& ops = step->units[step->instances[next].unit].ops;
    if (before.empty() || ops.empty() || before.back().lane == ops.front().lane) continue;
    std::vector<CarriedWait>& waits = step->instances[next].waits;
    std::erase_if(waits, [](const CarriedWait& wait) { return wait.op == 0; });
    waits.insert(waits.begin(), {.op = 0, .instance = next - 1, .producer = before.next() - 1});
  }
  return absl::OkStatus();
}

}  // namespace stretto
