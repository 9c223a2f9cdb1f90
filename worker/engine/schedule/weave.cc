#include "worker/engine/schedule/weave.h"

#include <algorithm>

#include "proto/base/check.h"

namespace stretto {

std::vector<Strand> StrandsOf(const Unit& unit) {
  std::vector<Strand> strands;
  std::vector<bool> open;  // whether the strand's last segment still takes operations
  for (size_t i = 0; i < unit.ops.size(); ++i) {
    const Op& op = unit.ops[i];
    STRETTO_CHECK(op.tag.slice >= 0);
    const size_t s = static_cast<size_t>(op.tag.slice);
    if (s >= strands.size()) {
      strands.resize(s + 1);
      open.resize(s + 1, false);
    }
    if (!open[s]) strands[s].emplace_back();
    open[s] = true;
    Segment& segment = strands[s].back();
    switch (InfoOf(op.kind).role) {
      case Role::kChain:
        segment.chain.push_back(static_cast<int>(i));
        break;
      case Role::kWeightGradient:
        segment.filler.push_back(static_cast<int>(i));
        break;
      case Role::kCollective:
        segment.collective = static_cast<int>(i);
        open[s] = false;
        break;
    }
  }
  return strands;
}

std::vector<std::pair<int, int>> RoundRobin(const std::vector<Strand>& strands) {
  size_t longest = 0;
  for (const Strand& strand : strands) longest = std::max(longest, strand.size());
  std::vector<std::pair<int, int>> order;
  for (size_t k = 0; k < longest; ++k) {
    for (size_t s = 0; s < strands.size(); ++s) {
      if (k < strands[s].size()) order.emplace_back(static_cast<int>(s), static_cast<int>(k));
    }
  }
  return order;
}

std::vector<int> Weave(const std::vector<Strand>& strands,
                       const std::vector<std::pair<int, int>>& order) {
  std::vector<int> ops;
  for (const auto& [s, k] : order) {
    const Segment& segment = strands[static_cast<size_t>(s)][static_cast<size_t>(k)];
    ops.insert(ops.end(), segment.chain.begin(), segment.chain.end());
    if (segment.collective >= 0) ops.push_back(segment.collective);
    ops.insert(ops.end(), segment.filler.begin(), segment.filler.end());
  }
  return ops;
}

}  // namespace stretto
