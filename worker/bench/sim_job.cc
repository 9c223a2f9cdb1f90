// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/sim_job.h"

#include "worker/engine/layout/layout.h"

namespace stretto {

std::vector<RankCopy> CopiesOf(const EngineSpec& spec, Rank rank) {
  std::vector<RankCopy> copies;
  const int stage = PlaceOf(spec, rank).stage;
  for (Rank other : IdRange<Rank>(spec.world_size())) {
    if (other != rank && PlaceOf(spec, other).stage == stage)
      copies.push_back({other, GroupsOf(spec, other)});
  }
  return copies;
}

}  // namespace stretto
