#include "worker/engine/schedule/dependencies.h"

#include "worker/engine/program/memory_map.h"

namespace stretto {

std::vector<std::vector<int>> DependenciesOf(const std::vector<Op>& ops,
                                             const std::vector<Buffer>& buffers) {
  const auto overlaps = OverlapsOf(RegionsOf(buffers));
  std::vector<int> writer(buffers.size(), -1);
  std::vector<std::vector<int>> readers(buffers.size());
  std::vector<std::vector<int>> dependencies(ops.size());
  for (size_t i = 0; i < ops.size(); ++i) {
    std::vector<int>& needs = dependencies[i];
    const auto after_write = [&](int id) {
      if (writer[static_cast<size_t>(id)] >= 0) needs.push_back(writer[static_cast<size_t>(id)]);
    };
    const auto after_all = [&](int id) {
      after_write(id);
      const std::vector<int>& of = readers[static_cast<size_t>(id)];
      needs.insert(needs.end(), of.begin(), of.end());
    };
    for (int id : ops[i].in) {
      after_write(id);
      for (int other : overlaps[static_cast<size_t>(id)]) after_write(other);
    }
    for (int id : ops[i].out) {
      after_all(id);
      for (int other : overlaps[static_cast<size_t>(id)]) after_all(other);
    }
    for (int id : ops[i].in) readers[static_cast<size_t>(id)].push_back(static_cast<int>(i));
    for (int id : ops[i].out) {
      writer[static_cast<size_t>(id)] = static_cast<int>(i);
      readers[static_cast<size_t>(id)].clear();
    }
  }
  return dependencies;
}

}  // namespace stretto
