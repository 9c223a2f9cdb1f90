// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/schedule/reorder/reorder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"

namespace stretto {

absl::Status Reorder(StepProgram* step, UnitId unit, const std::vector<OpId>& permutation) {
  IdVector<OpId, Op>& ops = step->units.at(unit).ops;
  const std::string& name = step->units[unit].name;
  IdVector<OpId, bool> seen(ops.size(), false);
  for (const Op& op : ops) STRETTO_CHECK(op.waits.empty());
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
  IdVector<OpId, Op> ordered;
  ordered.reserve(ops.size());
  for (OpId index : permutation) ordered.push_back(std::move(ops[index]));
  ops = std::move(ordered);
  return absl::OkStatus();
}

}  // namespace stretto
