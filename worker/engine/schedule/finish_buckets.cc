// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "proto/base/status_macros.h"
#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/reorder/reorder.h"
#include "worker/engine/schedule/units.h"

namespace stretto {
namespace {

bool IsNormDgrad(OpKind kind) {
  return kind == OpKind::kLayerNormDgrad || kind == OpKind::kRmsNormDgrad;
}
bool IsNormWgrad(OpKind kind) {
  return kind == OpKind::kLayerNormWgrad || kind == OpKind::kRmsNormWgrad;
}

absl::Status FinishBucketsOf(UnitId unit, StepProgram* step) {
  const IdVector<OpId, Op>& ops = step->units[unit].ops;
  std::map<BufferId, std::deque<OpId>> left;  // the contributions to each gradient, in their order
  for (OpId op : ops.ids()) {
    if (IsNormWgrad(ops[op].kind)) left[ops[op].out[0]].push_back(op);
  }
  std::vector<Tag> computed;  // gradients of inputs whose contributions are left
  const auto is_computed = [&](OpId wgrad) {
    return std::find(computed.begin(), computed.end(), ops[wgrad].tag) != computed.end();
  };
  std::vector<OpId> order;
  for (OpId op : ops.ids()) {
    if (IsNormWgrad(ops[op].kind)) continue;
    order.push_back(op);
    if (!IsNormDgrad(ops[op].kind)) continue;
    computed.push_back(ops[op].tag);
    // Some schedules compute the second slice first, but contributions keep their order.
    for (auto& [gradient, wgrads] : left) {
      for (; !wgrads.empty() && is_computed(wgrads.front()); wgrads.pop_front()) {
        order.push_back(wgrads.front());
        std::erase(computed, ops[wgrads.front()].tag);
      }
    }
  }
  return Reorder(step, unit, order);
}

}  // namespace

absl::Status FinishBuckets(const EngineSpec&, StepProgram* step) {
  for (UnitId unit : MicroBatchUnits(*step)) RETURN_IF_ERROR(FinishBucketsOf(unit, step));
  return absl::OkStatus();
}

}  // namespace stretto
