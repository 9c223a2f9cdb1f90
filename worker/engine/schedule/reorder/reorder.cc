// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/schedule/reorder/reorder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "worker/engine/program/memory_map.h"
#include "worker/engine/program/text.h"

namespace stretto {
namespace {

// For every operation of `ops`, executed in `order`: the last operation before it that wrote each
// of its operands, inputs first, or a buffer that overlaps the operand (-1: none in this unit).
IdVector<OpId, std::vector<OpId>> LastWriters(
    const IdVector<OpId, Op>& ops, const std::vector<OpId>& order,
    const IdVector<BufferId, std::vector<BufferId>>& overlaps) {
  IdVector<BufferId, OpId> writer(overlaps.size(), -1);
  IdVector<OpId, std::vector<OpId>> result(ops.size());
  for (OpId index : order) {
    const Op& op = ops[index];
    std::vector<OpId>& mine = result[index];
    for (const std::vector<BufferId>* ids : {&op.in, &op.out}) {
      for (BufferId id : *ids) {
        mine.push_back(writer[id]);
        for (BufferId other : overlaps[id]) mine.push_back(writer[other]);
      }
    }
    for (BufferId id : op.out) writer[id] = index;
  }
  return result;
}

}  // namespace

absl::Status Reorder(StepProgram* step, UnitId unit, const std::vector<OpId>& permutation) {
  IdVector<OpId, Op>& ops = step->units.at(unit).ops;
  const std::string& name = step->units[unit].name;
  std::vector<OpId> before;
  IdVector<OpId, bool> seen(ops.size(), false);
  for (OpId op : ops.ids()) {
    before.push_back(op);
    STRETTO_CHECK(ops[op].waits.empty());
  }
  for (OpId index : permutation) {
    if (!ops.Has(index) || seen[index]) {
      return absl::InvalidArgumentError(
          absl::StrCat("unit ", name, ": found operation ", index.value(),
                       " twice or out of range, expected a permutation"));
    }
    seen[index] = true;
  }
  if (permutation.size() != ops.size()) {
    return absl::InvalidArgumentError(absl::StrCat("unit ", name, ": found ", permutation.size(),
                                                   " operations, expected all ", ops.size()));
  }
  const auto overlaps = OverlapsOf(RegionsOf(step->buffers));
  const auto old_writers = LastWriters(ops, before, overlaps);
  // If every operand has the same last writer as before, every operation reads and overwrites the
  // same values, by induction over the order.
  const auto new_writers = LastWriters(ops, permutation, overlaps);
  for (OpId i : ops.ids()) {
    if (old_writers[i] == new_writers[i]) continue;
    return absl::InvalidArgumentError(absl::StrCat("unit ", name, ": the new order changes what '",
                                                   InfoOf(ops[i].kind).name, " ",
                                                   PrintTag(ops[i].tag), "' reads or overwrites"));
  }
  IdVector<OpId, Op> ordered;
  ordered.reserve(ops.size());
  for (OpId index : permutation) ordered.push_back(std::move(ops[index]));
  ops = std::move(ordered);
  return absl::OkStatus();
}

}  // namespace stretto
