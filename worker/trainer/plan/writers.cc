// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/plan/writers.h"

#include <algorithm>

#include "worker/engine/layout/layout.h"
#include "worker/engine/model/buckets.h"

namespace stretto::trainer {

Writers::Writers(const EngineSpec& spec) : elements_(static_cast<size_t>(spec.world_size())) {
  // Of the ranks that hold the same elements, the one with least to write so far writes them.
  for (const std::vector<Holders>& parts : HoldersOf(spec)) {
    std::vector<Rank>& writers = writers_.emplace_back();
    for (const Holders& part : parts) {
      const Rank writer = *std::min_element(
          part.ranks.begin(), part.ranks.end(),
          [&](Rank a, Rank b) { return elements_[a.position()] < elements_[b.position()]; });
      elements_[writer.position()] += part.range.count();
      writers.push_back(writer);
    }
  }
}

bool Writers::Writes(Rank rank, size_t parameter) const {
  const std::vector<Rank>& writers = writers_[parameter];
  return std::find(writers.begin(), writers.end(), rank) != writers.end();
}

int64_t Writers::BytesOf(Rank rank) const {
  constexpr int64_t kTensors = 3;  // of a parameter: a master and two moments
  return elements_[rank.position()] * kTensors * static_cast<int64_t>(SizeOf(DType::kF32));
}

int64_t Writers::bytes() const {
  int64_t all = 0;
  for (Rank rank : IdRange<Rank>(static_cast<int>(elements_.size()))) all += BytesOf(rank);
  return all;
}

}  // namespace stretto::trainer
