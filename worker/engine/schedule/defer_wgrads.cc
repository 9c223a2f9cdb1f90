// SPDX-License-Identifier: Apache-2.0
#include <deque>

#include "proto/base/status_macros.h"
#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/reorder/reorder.h"
#include "worker/engine/schedule/units.h"

namespace stretto {

namespace {

absl::Status DeferIn(UnitId unit, int by, StepProgram* step) {
  // The queue is first in, first out, so contributions to one gradient keep their order.
  struct Waiting {
    OpId op;
    int until;  // released once this many collectives have been launched
  };
  const IdVector<OpId, Op>& ops = step->units[unit].ops;
  std::deque<Waiting> queue;
  std::vector<OpId> order;
  int launched = 0;
  const auto release = [&](bool all) {
    for (; !queue.empty() && (all || queue.front().until <= launched); queue.pop_front())
      order.push_back(queue.front().op);
  };
  for (OpId op : ops.ids()) {
    const OperationRole role = InfoOf(ops[op].kind).role;
    if (role == OperationRole::kWeightGradient && ops[op].tag.layer >= 0) {
      queue.push_back({op, launched + by});
      continue;
    }
    // The gradient of the embedding ends the micro-batch, so nothing is deferred beyond it.
    if (role == OperationRole::kWeightGradient && ops[op].tag.name == "embed") release(true);
    order.push_back(op);
    if (role == OperationRole::kCollective) ++launched;
    release(false);
  }
  release(true);
  return Reorder(step, unit, order);
}

}  // namespace

absl::Status DeferWgrads(const EngineSpec& spec, StepProgram* step) {
  const int by = spec.schedule.defer_wgrads;
  if (by == 0) return absl::OkStatus();
  for (UnitId unit : MicroBatchUnits(*step)) RETURN_IF_ERROR(DeferIn(unit, by, step));
  return absl::OkStatus();
}

}  // namespace stretto
