// SPDX-License-Identifier: Apache-2.0

// Adds waits around the transfers of each pass, whose sends come last (arrange_pipeline.cc):
//
//   the first computation of a pass   behind its receives and the sends of the pass before
//   a receive                         behind the last computation of the pass before
//   a send                            behind the last computation of its own pass

#include <algorithm>
#include <tuple>
#include <vector>

#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/units.h"

namespace stretto {
namespace {

// The operations of a unit by what they do; -1 where there is none.
struct Roles {
  OpId first = -1, last = -1;  // computation and collectives of the stage's own ranks
  std::vector<OpId> sends, receives;
};

Roles RolesOf(const Unit& unit) {
  Roles pass;
  for (OpId op : unit.ops.ids()) {
    const OpKind kind = unit.ops[op].kind;
    if (IsTransfer(kind)) (kind == OpKind::kSend ? pass.sends : pass.receives).push_back(op);
    if (MovesBetweenStages(unit.ops[op])) continue;
    if (pass.first < 0) pass.first = op;
    pass.last = op;
  }
  return pass;
}

void AddWait(OpId wait, Op* op) {
  const auto at = std::lower_bound(op->waits.begin(), op->waits.end(), wait);
  if (at == op->waits.end() || *at != wait) op->waits.insert(at, wait);
}

}  // namespace

absl::Status BlockTransfers(const EngineSpec&, StepProgram* step) {
  IdVector<UnitId, Roles> passes;
  for (Unit& unit : step->units) {
    const Roles pass = RolesOf(unit);
    // A wait is for an earlier operation of the unit; receives are the first ones of theirs.
    for (OpId receive : pass.receives) {
      if (receive < pass.first) AddWait(receive, &unit.ops[pass.first]);
    }
    for (OpId send : pass.sends) AddWait(pass.last, &unit.ops[send]);
    passes.push_back(pass);
  }
  for (InstanceId next = 1; next < step->instances.next(); next = next + 1) {
    Instance& instance = step->instances[next];
    const Roles& pass = passes[instance.unit];
    const Roles& before = passes[step->instances[next - 1].unit];
    const auto add = [&](OpId op, OpId producer) {
      instance.waits.push_back({.op = op, .instance = next - 1, .producer = producer});
    };
    for (OpId send : before.sends) add(pass.first, send);
    for (OpId receive : pass.receives) add(receive, before.last);
    std::sort(instance.waits.begin(), instance.waits.end(),
              [](const CarriedWait& a, const CarriedWait& b) {
                return std::tie(a.op, a.instance, a.producer) <
                       std::tie(b.op, b.instance, b.producer);
              });
  }
  return absl::OkStatus();
}

}  // namespace stretto
