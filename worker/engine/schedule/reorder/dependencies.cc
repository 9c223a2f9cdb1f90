// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/schedule/reorder/dependencies.h"

#include "worker/engine/program/memory_map.h"

namespace stretto {

IdVector<OpId, std::vector<OpId>> DependenciesOf(const IdVector<OpId, Op>& ops,
                                                 const IdVector<BufferId, Buffer>& buffers) {
  const auto overlaps = OverlapsOf(RegionsOf(buffers));
  IdVector<BufferId, OpId> writer(buffers.size(), -1);
  IdVector<BufferId, std::vector<OpId>> readers(buffers.size());
  IdVector<OpId, std::vector<OpId>> dependencies(ops.size());
  for (OpId op : ops.ids()) {
    std::vector<OpId>& needs = dependencies[op];
    const auto after_write = [&](BufferId id) {
      if (writer[id] >= 0) needs.push_back(writer[id]);
    };
    // Readers that came before the last write are ordered through that write.
    const auto after_all = [&](BufferId id) {
      after_write(id);
      const std::vector<OpId>& of = readers[id];
      needs.insert(needs.end(), of.begin(), of.end());
    };
    for (BufferId id : ops[op].in) {
      after_write(id);
      for (BufferId other : overlaps[id]) after_write(other);
    }
    for (BufferId id : ops[op].out) {
      after_all(id);
      for (BufferId other : overlaps[id]) after_all(other);
    }
    for (BufferId id : ops[op].in) readers[id].push_back(op);
    for (BufferId id : ops[op].out) {
      writer[id] = op;
      readers[id].clear();
    }
  }
  return dependencies;
}

}  // namespace stretto
