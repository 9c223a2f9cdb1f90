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

std::vector<Chunk> ChunksOf(const EngineSpec& spec, int stage) {
  const int layers = spec.model.layers, chunks = spec.pp_size * spec.chunks_per_stage;
  const auto first = [&](int i) { return i * (layers / chunks) + std::min(i, layers % chunks); };
  std::vector<Chunk> of_stage;
  for (int chunk = stage; chunk < chunks; chunk += spec.pp_size) {
    of_stage.push_back({.first_layer = first(chunk),
                        .end_layer = first(chunk + 1),
                        .embeds = chunk == 0,
                        .predicts = chunk == chunks - 1});
  }
  return of_stage;
}

std::string TransferGroupName(int from_stage, int to_stage, bool wraps) {
  return absl::StrCat(kPpGroupName, wraps ? ".wrap." : ".", from_stage, "-", to_stage);
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
  const auto add_neighbours = [&](int from, int to, bool wraps) {
    add(TransferGroupName(from, to, wraps), {from, to}, set_stage);
    add(TransferGroupName(to, from, wraps), {to, from}, set_stage);
  };
  for (int from : {place.stage - 1, place.stage}) {
    if (from >= 0 && from < last) add_neighbours(from, from + 1, /*wraps=*/false);
  }
  if (spec.chunks_per_stage > 1 && (place.stage == 0 || place.stage == last))
    add_neighbours(last, 0, /*wraps=*/true);
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
