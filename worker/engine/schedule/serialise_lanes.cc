// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/units.h"

namespace stretto {
namespace {

// Returns the first operation in [begin, end) that is of no transfer, or `end`.
template <class Iterator>
Iterator NextInTurn(Iterator begin, Iterator end) {
  return std::find_if(begin, end, [](const Op& op) { return !MovesBetweenStages(op); });
}

}  // namespace

absl::Status SerialiseLanes(const EngineSpec&, StepProgram* step) {
  const auto at = [&](InstanceId instance, OpId op) -> const Op& {
    return step->units[step->instances[instance].unit].ops[op];
  };
  for (Unit& unit : step->units) {
    OpId before = -1;
    for (OpId op : unit.ops.ids()) {
      if (MovesBetweenStages(unit.ops[op])) continue;
      if (before >= 0 && unit.ops[op].lane != unit.ops[before].lane) {
        // The operation before it comes after all that it waited for, except transfers.
        WaitList& waits = unit.ops[op].waits;
        const auto kept = std::remove_if(waits.begin(), waits.end(), [&](OpId wait) {
          return !MovesBetweenStages(unit.ops[wait]);
        });
        waits.erase(kept, waits.end());
        waits.insert(std::upper_bound(waits.begin(), waits.end(), before), before);
      }
      before = op;
    }
  }
  for (InstanceId next = 1; next < step->instances.next(); next = next + 1) {
    const IdVector<OpId, Op>& before = step->units[step->instances[next - 1].unit].ops;
    const IdVector<OpId, Op>& ops = step->units[step->instances[next].unit].ops;
    const auto first = NextInTurn(ops.begin(), ops.end());
    const auto last = NextInTurn(before.rbegin(), before.rend());
    if (first == ops.end() || last == before.rend() || first->lane == last->lane) continue;
    const OpId op = OpId::Of(first - ops.begin());
    std::vector<CarriedWait>& waits = step->instances[next].waits;
    std::erase_if(waits, [&](const CarriedWait& wait) {
      return wait.op == op && !MovesBetweenStages(at(wait.instance, wait.producer));
    });
    waits.insert(waits.begin(),
                 {.op = op, .instance = next - 1, .producer = OpId::Of(before.rend() - last) - 1});
  }
  return absl::OkStatus();
}

}  // namespace stretto
