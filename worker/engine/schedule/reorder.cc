#include "worker/engine/schedule/reorder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "worker/engine/program/memory_map.h"
#include "worker/engine/program/text.h"

namespace stretto {
namespace {

// For every operation of `ops` taken in `order`, the last writer before it of each operand and of
// everything that overlaps it (-1: none in this unit), inputs first.
std::vector<std::vector<int>> LastWriters(const std::vector<Op>& ops, const std::vector<int>& order,
                                          const std::vector<std::vector<int>>& overlaps) {
  std::vector<int> writer(overlaps.size(), -1);
  std::vector<std::vector<int>> result(ops.size());
  for (int index : order) {
    const Op& op = ops[static_cast<size_t>(index)];
    std::vector<int>& mine = result[static_cast<size_t>(index)];
    for (const std::vector<int>* ids : {&op.in, &op.out}) {
      for (int id : *ids) {
        mine.push_back(writer[static_cast<size_t>(id)]);
        for (int other : overlaps[static_cast<size_t>(id)])
          mine.push_back(writer[static_cast<size_t>(other)]);
      }
    }
    for (int id : op.out) writer[static_cast<size_t>(id)] = index;
  }
  return result;
}

}  // namespace

absl::Status Reorder(StepProgram* step, int unit, const std::vector<int>& permutation) {
  std::vector<Op>& ops = step->units.at(static_cast<size_t>(unit)).ops;
  const std::string& name = step->units[static_cast<size_t>(unit)].name;
  std::vector<int> before(ops.size());
  std::vector<bool> seen(ops.size(), false);
  for (size_t i = 0; i < ops.size(); ++i) {
    before[i] = static_cast<int>(i);
    STRETTO_CHECK(ops[i].waits.empty());
  }
  for (int index : permutation) {
    if (index < 0 || index >= static_cast<int>(ops.size()) || seen[static_cast<size_t>(index)]) {
      return absl::InvalidArgumentError(
          absl::StrCat("unit ", name, ": found operation ", index,
                       " twice or out of range, expected a permutation"));
    }
    seen[static_cast<size_t>(index)] = true;
  }
  if (permutation.size() != ops.size()) {
    return absl::InvalidArgumentError(absl::StrCat("unit ", name, ": found ", permutation.size(),
                                                   " operations, expected all ", ops.size()));
  }
  const auto overlaps = OverlapsOf(RegionsOf(step->buffers));
  const auto old_writers = LastWriters(ops, before, overlaps);
  const auto new_writers = LastWriters(ops, permutation, overlaps);
  for (size_t i = 0; i < ops.size(); ++i) {
    if (old_writers[i] == new_writers[i]) continue;
    return absl::InvalidArgumentError(absl::StrCat("unit ", name, ": the new order changes what '",
                                                   InfoOf(ops[i].kind).name, " ",
                                                   PrintTag(ops[i].tag), "' reads or overwrites"));
  }
  std::vector<Op> ordered;
  ordered.reserve(ops.size());
  for (int index : permutation) ordered.push_back(std::move(ops[static_cast<size_t>(index)]));
  ops = std::move(ordered);
  return absl::OkStatus();
}

}  // namespace stretto
