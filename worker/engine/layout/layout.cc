// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/layout/layout.h"

namespace stretto {

Place PlaceOf(const EngineSpec& spec, Rank rank) {
  return {.replica = rank.value() / spec.tp_size,
          .tp_rank = GroupRank::Of(rank.value() % spec.tp_size)};
}

IdVector<GroupId, Group> GroupsOf(const EngineSpec& spec, Rank rank) {
  const Place place = PlaceOf(spec, rank);
  Group tp{kTpGroupName, {}};
  for (int i = 0; i < spec.tp_size; ++i) {
    tp.ranks.push_back(Rank::Of(place.replica * spec.tp_size + i));
  }
  IdVector<GroupId, Group> groups = {std::move(tp)};
  if (spec.dp_size > 1) {
    Group dp{kDpGroupName, {}};
    for (int replica = 0; replica < spec.dp_size; ++replica) {
      dp.ranks.push_back(Rank::Of(replica * spec.tp_size + place.tp_rank.value()));
    }
    groups.push_back(std::move(dp));
  }
  return groups;
}

}  // namespace stretto
