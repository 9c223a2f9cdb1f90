// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/layout/layout.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stretto {

Place PlaceOf(const EngineSpec& spec, Rank rank) {
  const int block = rank.value() / spec.tp_size;
  return {.stage = block / spec.dp_size,
          .replica = block % spec.dp_size,
          .tp_rank = GroupRank::Of(rank.value() % spec.tp_size)};
}

Rank RankAt(const EngineSpec& spec, const Place& place) {
  return Rank::Of((place.stage * spec.dp_size + place.replica) * spec.tp_size +
                  place.tp_rank.value());
}

Stage StageOf(const EngineSpec& spec, int stage) {
  const int layers = spec.model.layers, stages = spec.pp_size;
  const auto first = [&](int i) { return i * (layers / stages) + std::min(i, layers % stages); };
  return {.first_layer = first(stage),
          .end_layer = first(stage + 1),
          .embeds = stage == 0,
          .predicts = stage == stages - 1};
}

std::string TransferGroupName(int from_stage, int to_stage) {
  return absl::StrCat(kPpGroupName, ".", from_stage, "-", to_stage);
}

IdVector<GroupId, Group> GroupsOf(const EngineSpec& spec, Rank rank) {
  const Place place = PlaceOf(spec, rank);
  const int last = spec.pp_size - 1;
  IdVector<GroupId, Group> groups;
  // Adds the group of `size` ranks that differ from this one in `axis` only.
  const auto add = [&](std::string name, const std::vector<int>& at, auto set) {
    Group group{std::move(name), {}};
    for (int i : at) {
      Place member = place;
      set(&member, i);
      group.ranks.push_back(RankAt(spec, member));
    }
    groups.push_back(std::move(group));
  };
  const auto all = [](int size) {
    std::vector<int> at;
    for (int i = 0; i < size; ++i) at.push_back(i);
    return at;
  };
  const auto set_stage = [](Place* member, int i) { member->stage = i; };
  add(kTpGroupName, all(spec.tp_size),
      [](Place* member, int i) { member->tp_rank = GroupRank::Of(i); });
  if (spec.pp_size > 1) {
    add(kPpGroupName, all(spec.pp_size), set_stage);
    if (spec.model.head_is_tied() && (place.stage == 0 || place.stage == last))
      add(kTiedGroupName, {0, last}, set_stage);
  }
  for (int from : {place.stage - 1, place.stage}) {
    if (from < 0 || from == last) continue;
    add(TransferGroupName(from, from + 1), {from, from + 1}, set_stage);
    add(TransferGroupName(from + 1, from), {from + 1, from}, set_stage);
  }
  if (spec.dp_size > 1)
    add(kDpGroupName, all(spec.dp_size), [](Place* member, int i) { member->replica = i; });
  return groups;
}

GroupId FindGroup(const IdVector<GroupId, Group>& groups, absl::string_view name) {
  for (GroupId group : groups.ids()) {
    if (groups[group].name == name) return group;
  }
  return -1;
}

}  // namespace stretto
