#include "worker/engine/program/memory_map.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace stretto {

std::vector<Region> RegionsOf(const std::vector<Buffer>& buffers) {
  constexpr int kArenas = 6;
  std::vector<Region> regions;
  regions.reserve(buffers.size());
  for (size_t id = 0; id < buffers.size(); ++id) {
    const Buffer& buffer = buffers[id];
    const Root root = RootOf(buffers, static_cast<int>(id));
    const Buffer& memory = buffers[static_cast<size_t>(root.buffer)];
    const int64_t start = root.element * static_cast<int64_t>(SizeOf(buffer.dtype));
    const bool planned = memory.offset >= 0;
    const int space = planned ? static_cast<int>(memory.arena) : kArenas + root.buffer;
    const int64_t begin = start + (planned ? memory.offset : 0);
    regions.push_back({space, begin, begin + buffer.bytes()});
  }
  return regions;
}

Segments SegmentsOf(const std::vector<Region>& regions) {
  using Cut = std::pair<int, int64_t>;  // space, byte
  std::vector<Cut> cuts;
  cuts.reserve(2 * regions.size());
  for (const Region& region : regions) {
    cuts.emplace_back(region.space, region.begin);
    cuts.emplace_back(region.space, region.end);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  const auto index = [&](int space, int64_t byte) {
    return static_cast<int>(std::lower_bound(cuts.begin(), cuts.end(), Cut(space, byte)) -
                            cuts.begin());
  };
  Segments segments;
  for (const Region& region : regions) {
    segments.begin.push_back(index(region.space, region.begin));
    segments.end.push_back(index(region.space, region.end));
  }
  segments.count = static_cast<int>(cuts.size());
  return segments;
}

std::vector<std::vector<int>> OverlapsOf(const std::vector<Region>& regions) {
  std::vector<int> order(regions.size());
  std::iota(order.begin(), order.end(), 0);
  auto at = [&](int id) -> const Region& { return regions[static_cast<size_t>(id)]; };
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return std::tie(at(a).space, at(a).begin, a) < std::tie(at(b).space, at(b).begin, b);
  });
  std::vector<std::vector<int>> overlaps(regions.size());
  std::vector<int> open;  // regions that may still overlap what follows
  for (int id : order) {
    std::erase_if(open, [&](int other) {
      return at(other).space != at(id).space || at(other).end <= at(id).begin;
    });
    for (int other : open) {
      if (!at(id).Overlaps(at(other))) continue;
      overlaps[static_cast<size_t>(id)].push_back(other);
      overlaps[static_cast<size_t>(other)].push_back(id);
    }
    open.push_back(id);
  }
  return overlaps;
}

}  // namespace stretto
