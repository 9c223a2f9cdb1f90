// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/schedule/delayed_wgrads.h"

#include <algorithm>
#include <set>
#include <vector>

#include "worker/engine/schedule/reorder/dependencies.h"
#include "worker/engine/schedule/units.h"

namespace stretto {
namespace {

// Whether each operation stands between a collective of the stage and the first operation that
// waits for it.
IdVector<OpId, bool> HidesCollectives(const IdVector<OpId, Op>& ops,
                                      const IdVector<OpId, std::vector<OpId>>& needs) {
  IdVector<OpId, bool> hides(ops.size(), false);
  IdVector<OpId, bool> met(ops.size(), false);
  for (OpId op : ops.ids()) {
    for (OpId before : needs[op]) {
      if (!IsCollective(ops[before].kind) || MovesBetweenStages(ops[before]) || met[before])
        continue;
      met[before] = true;
      for (OpId between = before + 1; between < op; ++between) hides[between] = true;
    }
  }
  return hides;
}

bool IsWgrad(const Op& op) { return InfoOf(op.kind).role == OperationRole::kWeightGradient; }

}  // namespace

IdVector<OpId, bool> DelayableWgrads(const StepProgram& step, UnitId unit) {
  const IdVector<OpId, Op>& ops = step.units.at(unit).ops;
  const IdVector<OpId, bool> hides = HidesCollectives(ops, DependenciesOf(ops, step.buffers));
  std::set<BufferId> kept;  // gradients with a contribution that stays
  for (OpId op : ops.ids()) {
    if (IsWgrad(ops[op]) && hides[op]) kept.insert(ops[op].out.begin(), ops[op].out.end());
  }
  IdVector<OpId, bool> delayable(ops.size());
  for (OpId op : ops.ids()) {
    const BufferList& out = ops[op].out;
    delayable[op] =
        IsWgrad(ops[op]) && ops[op].tag.layer >= 0 &&
        std::none_of(out.begin(), out.end(), [&](BufferId id) { return kept.contains(id); });
  }
  return delayable;
}

}  // namespace stretto
