// SPDX-License-Identifier: Apache-2.0

// Ranks are counted stage by stage. Groups are lists of ranks that differ from this one in one
// coordinate, or that a plan of a boundary names (transfers.h); a rank has those that it is in.

#include "worker/engine/layout/layout.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/engine/layout/transfers.h"

namespace stretto {
namespace {

// The number of ranks in front of a stage.
int RanksBefore(const EngineSpec& spec, int stage) {
  int ranks = 0;
  for (int i = 0; i < stage; ++i) ranks += TpSizeOf(spec, i);
  return ranks * spec.dp_size;
}

class GroupList {
 public:
  GroupList(const EngineSpec& spec, Rank rank)
      : spec_(spec), rank_(rank), place_(PlaceOf(spec, rank)) {}

  IdVector<GroupId, Group> Run() {
    const int tp = TpSizeOf(spec_, place_.stage);
    AddAxis(kTpGroupName, tp, [](Place* member, int i) { member->tp_rank = GroupRank::Of(i); });
    if (spec_.pp_size > 1) {
      AddPipeline();
      if (spec_.model.head_is_tied()) AddTied();
      for (int from : {place_.stage - 1, place_.stage}) {
        if (from < 0 || from == spec_.pp_size - 1) continue;
        AddBoundary({.from = from, .to = from + 1, .replica = place_.replica});
        AddBoundary({.from = from + 1, .to = from, .replica = place_.replica});
      }
      const int last = spec_.pp_size - 1;
      if (spec_.chunks_per_stage > 1 && (place_.stage == 0 || place_.stage == last)) {
        AddBoundary({.from = last, .to = 0, .replica = place_.replica, .wraps = true});
        AddBoundary({.from = 0, .to = last, .replica = place_.replica, .wraps = true});
      }
    }
    if (spec_.dp_size > 1) {
      AddAxis(kDpGroupName, spec_.dp_size, [](Place* member, int i) { member->replica = i; });
    }
    return std::move(groups_);
  }

 private:
  // Adds a group that this rank is in, unless it is there already.
  void Add(std::string name, const std::vector<Rank>& ranks) {
    if (std::find(ranks.begin(), ranks.end(), rank_) == ranks.end()) return;
    if (FindGroup(groups_, name) < 0) groups_.push_back({std::move(name), ranks});
  }

  // The ranks that differ from this one in one coordinate only.
  template <class Set>
  void AddAxis(const char* name, int size, Set set) {
    std::vector<Rank> ranks;
    for (int i = 0; i < size; ++i) {
      Place member = place_;
      set(&member, i);
      ranks.push_back(RankAt(spec_, member));
    }
    Add(name, ranks);
  }

  void AddPipeline() {
    const bool equal = TpSizesAreEqual(spec_);
    std::vector<Rank> ranks;
    for (int stage = 0; stage < spec_.pp_size; ++stage) {
      Place member{.stage = stage, .replica = place_.replica, .tp_rank = place_.tp_rank};
      for (int i = 0; i < (equal ? 1 : TpSizeOf(spec_, stage)); ++i) {
        if (!equal) member.tp_rank = GroupRank::Of(i);
        ranks.push_back(RankAt(spec_, member));
      }
    }
    Add(kPpGroupName, ranks);
  }

  // Rank i of n has rows [i / n, (i + 1) / n) of the embedding.
  void AddTied() {
    const int last = spec_.pp_size - 1, n = TpSizeOf(spec_, 0), m = TpSizeOf(spec_, last);
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < m; ++j) {
        if (i * m >= (j + 1) * n || j * n >= (i + 1) * m) continue;
        const auto at = [&](int stage, int tp_rank) {
          return RankAt(
              spec_,
              {.stage = stage, .replica = place_.replica, .tp_rank = GroupRank::Of(tp_rank)});
        };
        const std::vector<Rank> ranks = {at(0, i), at(last, j)};
        const std::string pair =
            i == j ? "" : absl::StrCat(".", ranks[0].value(), "-", ranks[1].value());
        Add(absl::StrCat(kTiedGroupName, pair), ranks);
      }
    }
  }

  void AddBoundary(const Boundary& boundary) {
    std::set<int> sizes;  // slices of equal size have one plan
    for (int sequences : spec_.schedule.slices) {
      if (!sizes.insert(sequences).second) continue;
      const Resharding plan =
          TransferPlan(spec_, boundary, int64_t{sequences} * spec_.model.sequence_length);
      for (const Step& step : plan.steps) {
        Add(GroupNameOf(spec_, boundary, step.ranks), step.ranks);
      }
    }
  }

  const EngineSpec& spec_;
  const Rank rank_;
  const Place place_;
  IdVector<GroupId, Group> groups_;
};

}  // namespace

int TpSizeOf(const EngineSpec& spec, int stage) {
  return spec.stages.empty() ? spec.tp_size : spec.stages.at(static_cast<size_t>(stage)).tp_size;
}

bool TpSizesAreEqual(const EngineSpec& spec) {
  return std::all_of(spec.stages.begin(), spec.stages.end(), [&](const StageSpec& stage) {
    return stage.tp_size == spec.stages.front().tp_size;
  });
}

Place PlaceOf(const EngineSpec& spec, Rank rank) {
  Place place;
  int position = rank.value();
  while (position >= TpSizeOf(spec, place.stage) * spec.dp_size) {
    position -= TpSizeOf(spec, place.stage) * spec.dp_size;
    ++place.stage;
  }
  const int tp = TpSizeOf(spec, place.stage);
  place.replica = position / tp;
  place.tp_rank = GroupRank::Of(position % tp);
  return place;
}

Rank RankAt(const EngineSpec& spec, const Place& place) {
  return Rank::Of(RanksBefore(spec, place.stage) + place.replica * TpSizeOf(spec, place.stage) +
                  place.tp_rank.value());
}

std::vector<Chunk> ChunksOf(const EngineSpec& spec, int stage) {
  const int layers = spec.model.layers, chunks = spec.pp_size * spec.chunks_per_stage;
  const auto first = [&](int i) {
    if (spec.stages.empty()) return i * (layers / chunks) + std::min(i, layers % chunks);
    int before = 0;
    for (int j = 0; j < i; ++j) before += spec.stages[static_cast<size_t>(j)].layers;
    return before;
  };
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
  return GroupList(spec, rank).Run();
}

GroupId FindGroup(const IdVector<GroupId, Group>& groups, absl::string_view name) {
  for (GroupId group : groups.ids()) {
    if (groups[group].name == name) return group;
  }
  return -1;
}

}  // namespace stretto
