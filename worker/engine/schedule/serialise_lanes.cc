// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "worker/engine/schedule/passes.h"

namespace stretto {
namespace {

// Returns the first operation of `ops` in [begin, end) that is no transfer, or `end`.
template <class Iterator>
Iterator NextInTurn(Iterator begin, Iterator end) {
  return std::find_if(begin, end, [](const Op& op) { return !IsTransfer(op.kind); });
}

}  // namespace

absl::Status SerialiseLanes(const EngineSpec&, StepProgram* step) {
  const auto kind = [&](InstanceId instance, OpId op) {
    return step->units[step->instances[instance].unit].ops[op].kind;
  };
  for (Unit& unit : step->units) {
    OpId before = -1;
    for (OpId op : unit.ops.ids()) {
      if (IsTransfer(unit.ops[op].kind)) continue;
      if (before >= 0 && unit.ops[op].lane != unit.ops[before].lane) {
        // The operation before it comes after all that it waited for, except transfers.
        std::vector<OpId>& waits = unit.ops[op].waits;
        std::erase_if(waits, [&](OpId wait) { return !IsTransfer(unit.ops[wait].kind); });
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
      return wait.op == op && !IsTransfer(kind(wait.instance, wait.producer));
    });
    waits.insert(waits.begin(),
                 {.op = op, .instance = next - 1, .producer = OpId::Of(before.rend() - last) - 1});
  }
  return absl::OkStatus();
}

}  // namespace stretto
