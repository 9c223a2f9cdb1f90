// SPDX-License-Identifier: Apache-2.0

// Ranks are counted stage by stage. Groups are lists of ranks that differ from this one in one
// coordinate, or that a plan of a boundary names (transfers.h); a rank has those that it is in.
// Places in a replica have no counterpart in a stage of another TP size, and replicas none in a
// stage of another number of them; a group of several stages then has all of them.

#include "worker/engine/layout/layout.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/engine/layout/transfers.h"

namespace stretto {
namespace {

// The number of ranks in front of a stage.
int RanksBefore(const EngineSpec& spec, int stage) {
  int ranks = 0;
  for (int i = 0; i < stage; ++i) ranks += TpSizeOf(spec, i) * ReplicasOf(spec, i);
  return ranks;
}

bool AllEqual(const EngineSpec& spec, int (*of)(const EngineSpec&, int)) {
  for (int stage = 1; stage < spec.pp_size; ++stage) {
    if (of(spec, stage) != of(spec, 0)) return false;
  }
  return true;
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
      const int head = HeadStageOf(spec_);
      const bool at_end = place_.stage == 0 || place_.stage == head;
      if (spec_.model.head_is_tied() && head > 0 && at_end) AddTied();
      for (int chunk = 1; chunk < ChunkCount(spec_); ++chunk) AddBoundaries(chunk);
    }
    if (const int replicas = ReplicasOf(spec_, place_.stage); replicas > 1) {
      AddAxis(kDpGroupName, replicas, [](Place* member, int i) { member->replica = i; });
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
    const bool replicas_equal = ReplicasAreEqual(spec_), meshes_equal = MeshesAreEqual(spec_);
    std::vector<Rank> ranks;
    for (int stage = 0; stage < spec_.pp_size; ++stage) {
      for (int replica = 0; replica < ReplicasOf(spec_, stage); ++replica) {
        if (replicas_equal && replica != place_.replica) continue;
        for (int i = 0; i < TpSizeOf(spec_, stage); ++i) {
          const Place member{.stage = stage, .replica = replica, .tp_rank = GroupRank::Of(i)};
          if (meshes_equal && member.tp_rank != place_.tp_rank) continue;
          ranks.push_back(RankAt(spec_, member));
        }
      }
    }
    Add(kPpGroupName, ranks);
  }

  // This replica, or all of a stage if the first stage and the last one differ in them.
  std::vector<Rank> TiedAt(int stage, int tp_rank) const {
    std::vector<Rank> ranks;
    for (int replica = 0; replica < ReplicasOf(spec_, stage); ++replica) {
      if (!TiedEndsDiffer(spec_) && replica != place_.replica) continue;
      ranks.push_back(
          RankAt(spec_, {.stage = stage, .replica = replica, .tp_rank = GroupRank::Of(tp_rank)}));
    }
    return ranks;
  }

  // Rank i of n has rows [i / n, (i + 1) / n) of the embedding.
  void AddTied() {
    const int last = HeadStageOf(spec_), n = TpSizeOf(spec_, 0), m = TpSizeOf(spec_, last);
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < m; ++j) {
        if (i * m >= (j + 1) * n || j * n >= (i + 1) * m) continue;
        std::vector<Rank> ranks = TiedAt(0, i);
        for (Rank rank : TiedAt(last, j)) ranks.push_back(rank);
        const std::string ends =
            i == j ? "" : absl::StrCat(".", ranks.front().value(), "-", ranks.back().value());
        Add(absl::StrCat(kTiedGroupName, ends), ranks);
      }
    }
  }

  // Adds the boundary in front of a chunk, unless the chunk before it is on the same stage.
  void AddBoundaries(int chunk) {
    Boundary boundary = BoundaryBefore(spec_, chunk);
    const bool here = boundary.from == place_.stage || boundary.to == place_.stage;
    if (!here || boundary.from == boundary.to) return;
    AddBoundary(boundary);
    std::swap(boundary.from, boundary.to);
    AddBoundary(boundary);
  }

  void AddBoundary(const Boundary& boundary) {
    for (const CommonRows& rows : CommonRowsOf(spec_, boundary, place_)) {
      for (const Step& step : TransferPlan(spec_, boundary, rows).steps) {
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

int ReplicasOf(const EngineSpec& spec, int stage) {
  if (spec.stages.empty()) return spec.dp_size;
  return spec.stages.at(static_cast<size_t>(stage)).ReplicasOf(spec.dp_size);
}

bool TiedEndsDiffer(const EngineSpec& spec) {
  return ReplicasOf(spec, 0) != ReplicasOf(spec, HeadStageOf(spec));
}

int SharesOf(const EngineSpec& spec, int stage) { return spec.dp_size / ReplicasOf(spec, stage); }

int SequencesOf(const EngineSpec& spec, int stage) {
  return spec.micro_batch_size * SharesOf(spec, stage);
}

std::vector<int> SlicesOf(const EngineSpec& spec, int stage) {
  std::vector<int> slices = spec.schedule.slices;
  for (int& sequences : slices) sequences *= SharesOf(spec, stage);
  return slices;
}

bool ReplicasAreEqual(const EngineSpec& spec) { return AllEqual(spec, ReplicasOf); }

bool MeshesAreEqual(const EngineSpec& spec) {
  return ReplicasAreEqual(spec) && AllEqual(spec, TpSizeOf);
}

Place PlaceOf(const EngineSpec& spec, Rank rank) {
  Place place;
  int position = rank.value();
  const auto ranks = [&] { return TpSizeOf(spec, place.stage) * ReplicasOf(spec, place.stage); };
  while (position >= ranks()) {
    position -= ranks();
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

int ChunkCount(const EngineSpec& spec) { return spec.pp_size * spec.chunks_per_stage; }

int StageOfChunk(const EngineSpec& spec, int chunk) {
  const int stage = chunk % spec.pp_size;
  const bool back = FindPipeline(spec.schedule.pipeline)->folds && chunk / spec.pp_size % 2 == 1;
  return back ? spec.pp_size - 1 - stage : stage;
}

int HeadStageOf(const EngineSpec& spec) { return StageOfChunk(spec, ChunkCount(spec) - 1); }

std::vector<Chunk> ChunksOf(const EngineSpec& spec, int stage) {
  const int layers = spec.model.layers, chunks = ChunkCount(spec);
  const auto first = [&](int i) {
    if (spec.stages.empty()) return i * (layers / chunks) + std::min(i, layers % chunks);
    int before = 0;
    for (int j = 0; j < i; ++j) before += spec.stages[static_cast<size_t>(j)].layers;
    return before;
  };
  std::vector<Chunk> of_stage;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    if (StageOfChunk(spec, chunk) != stage) continue;
    of_stage.push_back({.number = chunk,
                        .first_layer = first(chunk),
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
