// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/program/memory_map.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace stretto {

IdVector<BufferId, Region> RegionsOf(const IdVector<BufferId, Buffer>& buffers) {
  constexpr int kArenas = 6;
  IdVector<BufferId, Region> regions;
  regions.reserve(buffers.size());
  for (BufferId id : buffers.ids()) {
    const Buffer& buffer = buffers[id];
    const Root root = RootOf(buffers, id);
    const Buffer& memory = buffers[root.buffer];
    const int64_t start = root.element * static_cast<int64_t>(SizeOf(buffer.dtype));
    const bool planned = memory.offset >= 0;
    // Unplanned memory is a space of its own, after those of the arenas.
    const int space = planned ? static_cast<int>(memory.arena) : kArenas + root.buffer.value();
    const int64_t begin = start + (planned ? memory.offset : 0);
    regions.push_back({space, begin, begin + buffer.bytes()});
  }
  return regions;
}

Segments SegmentsOf(const IdVector<BufferId, Region>& regions) {
  using Cut = std::pair<int, int64_t>;  // space, byte
  std::vector<Cut> cuts;
  cuts.reserve(2 * regions.size());
  for (const Region& region : regions) {
    cuts.emplace_back(region.space, region.begin);
    cuts.emplace_back(region.space, region.end);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  const auto index = [&](int space, int64_t byte) -> size_t {
    return std::lower_bound(cuts.begin(), cuts.end(), Cut(space, byte)) - cuts.begin();
  };
  Segments segments;
  for (const Region& region : regions) {
    segments.begin.push_back(index(region.space, region.begin));
    segments.end.push_back(index(region.space, region.end));
  }
  segments.count = cuts.size();
  for (const Cut& cut : cuts) segments.byte.push_back(cut.second);
  return segments;
}

IdVector<BufferId, std::vector<BufferId>> OverlapsOf(const IdVector<BufferId, Region>& regions) {
  std::vector<BufferId> order(regions.size());
  std::iota(order.begin(), order.end(), BufferId(0));
  auto at = [&](BufferId id) -> const Region& { return regions[id]; };
  std::sort(order.begin(), order.end(), [&](BufferId a, BufferId b) {
    return std::tie(at(a).space, at(a).begin, a) < std::tie(at(b).space, at(b).begin, b);
  });
  IdVector<BufferId, std::vector<BufferId>> overlaps(regions.size());
  std::vector<BufferId> open;  // regions that may still overlap later ones
  for (BufferId id : order) {
    std::erase_if(open, [&](BufferId other) {
      return at(other).space != at(id).space || at(other).end <= at(id).begin;
    });
    for (BufferId other : open) {
      if (!at(id).Overlaps(at(other))) continue;
      overlaps[id].push_back(other);
      overlaps[other].push_back(id);
    }
    open.push_back(id);
  }
  return overlaps;
}

}  // namespace stretto
