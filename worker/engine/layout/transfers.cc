// SPDX-License-Identifier: Apache-2.0

// Slices of both stages are ranges of the rows of a micro-batch, in one order, so what a pair of
// replicas has in common comes in the same order at both ends, and no rank waits in a circle.
//
// The planner sees two nodes, on which the senders are ranks 0 to n - 1 and the receivers the ones
// behind them. Its plan therefore is the same for all replicas; the job's ranks replace those. An
// element of the planner's tensor is a row, so that parts of a gather are whole rows, which are
// contiguous, and nothing needs to be packed.

#include "worker/engine/layout/transfers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/check.h"
#include "worker/engine/layout/layout.h"

namespace stretto {
namespace {

constexpr LinkCost kLink = {.bytes_per_second = 1.25e9, .latency_seconds = 50e-6};

// A slice of a replica, as rows of the micro-batch of all replicas.
struct SliceRows {
  ReplicaSlice of;
  int64_t begin = 0, end = 0;
};
std::vector<SliceRows> SlicesOfReplica(const EngineSpec& spec, int stage, int replica) {
  const int64_t length = spec.model.sequence_length;
  int64_t begin = replica * SequencesOf(spec, stage) * length;
  std::vector<SliceRows> slices;
  for (int sequences : SlicesOf(spec, stage)) {
    const int slice = static_cast<int>(slices.size());
    slices.push_back({{replica, slice}, begin, begin + sequences * length});
    begin = slices.back().end;
  }
  return slices;
}

// The common rows that the ranks of a replica hold, of which `first` is the first.
Tiling TilingOf(const EngineSpec& spec, int stage, const ReplicaSlice& of, const CommonRows& rows,
                Rank first) {
  const SliceRows slice =
      SlicesOfReplica(spec, stage, of.replica).at(static_cast<size_t>(of.slice));
  const int ranks = TpSizeOf(spec, stage), tiles = spec.schedule.sequence_parallel ? ranks : 1;
  const int64_t each = (slice.end - slice.begin) / tiles;
  Tiling tiling{.shape = {rows.end - rows.begin}, .tiles = {}};
  for (int tile = 0; tile < tiles; ++tile) {
    const int64_t begin = std::max(slice.begin + tile * each, rows.begin),
                  end = std::min(slice.begin + (tile + 1) * each, rows.end);
    if (begin >= end) continue;
    Tile& added = tiling.tiles.emplace_back();
    added.box = {.starts = {begin - rows.begin}, .extents = {end - begin}};
    for (int i = tile; i < ranks; i += tiles) added.ranks.push_back(Rank::Of(first.value() + i));
  }
  return tiling;
}

// All columns of the rows.
void AddColumns(const EngineSpec& spec, Box* box) {
  box->starts.push_back(0);
  box->extents.push_back(spec.model.hidden);
}

ReshardMode ModeOf(const EngineSpec& spec, int senders, int receivers) {
  switch (spec.schedule.transfer) {
    case Transfer::kAuto:
      return senders == receivers ? ReshardMode::kSend : ReshardMode::kAuto;
    case Transfer::kSend:
      return ReshardMode::kSend;
    case Transfer::kChain:
      return ReshardMode::kChain;
    case Transfer::kGather:
      return ReshardMode::kGather;
  }
  return ReshardMode::kSend;
}

}  // namespace

Boundary BoundaryBefore(const EngineSpec& spec, int chunk) {
  const int from = StageOfChunk(spec, chunk - 1), to = StageOfChunk(spec, chunk);
  return {.from = from, .to = to, .wraps = to < from};
}

std::vector<CommonRows> CommonRowsOf(const EngineSpec& spec, const Boundary& boundary,
                                     const Place& place) {
  const bool sends = place.stage == boundary.from;
  const int other = sends ? boundary.to : boundary.from;
  const int64_t own = SequencesOf(spec, place.stage), theirs = SequencesOf(spec, other);
  std::vector<SliceRows> others;
  for (int64_t replica = place.replica * own / theirs; replica * theirs < (place.replica + 1) * own;
       ++replica) {
    for (const SliceRows& slice : SlicesOfReplica(spec, other, static_cast<int>(replica)))
      others.push_back(slice);
  }
  std::vector<CommonRows> all;
  for (const SliceRows& mine : SlicesOfReplica(spec, place.stage, place.replica)) {
    for (const SliceRows& slice : others) {
      const int64_t begin = std::max(mine.begin, slice.begin), end = std::min(mine.end, slice.end);
      if (begin >= end) continue;
      all.push_back({.from = sends ? mine.of : slice.of,
                     .to = sends ? slice.of : mine.of,
                     .begin = begin,
                     .end = end});
    }
  }
  return all;
}

Tiling RowsOf(const EngineSpec& spec, int stage, const ReplicaSlice& of, const CommonRows& rows) {
  Tiling tiling =
      TilingOf(spec, stage, of, rows, RankAt(spec, {.stage = stage, .replica = of.replica}));
  tiling.shape.push_back(spec.model.hidden);
  for (Tile& tile : tiling.tiles) AddColumns(spec, &tile.box);
  return tiling;
}

Resharding TransferPlan(const EngineSpec& spec, const Boundary& boundary, const CommonRows& rows) {
  const int senders = TpSizeOf(spec, boundary.from), receivers = TpSizeOf(spec, boundary.to);
  Topology topology;
  for (int i = 0; i < senders + receivers; ++i) topology.node.push_back(i < senders ? 0 : 1);
  const DType wire = spec.dtype == DType::kBF16 ? spec.dtype : spec.wire_dtype;
  auto plan =
      PlanResharding(TilingOf(spec, boundary.from, rows.from, rows, 0),
                     TilingOf(spec, boundary.to, rows.to, rows, Rank::Of(senders)), topology, kLink,
                     int64_t{spec.model.hidden} * static_cast<int64_t>(SizeOf(wire)),
                     {.mode = ModeOf(spec, senders, receivers)});
  STRETTO_CHECK(plan.ok());
  const Rank from = RankAt(spec, {.stage = boundary.from, .replica = rows.from.replica}),
             to = RankAt(spec, {.stage = boundary.to, .replica = rows.to.replica});
  // Senders that all have the same rows take turns over the replicas that they send to.
  const int first = rows.from.replica * SequencesOf(spec, boundary.from) /
                    SequencesOf(spec, boundary.to);  // of those replicas
  const int turn =
      spec.schedule.sequence_parallel ? 0 : (rows.to.replica - first) * receivers % senders;
  for (Step& step : plan->steps) {
    AddColumns(spec, &step.box);
    for (Rank& rank : step.ranks) {
      const int i = rank.value();
      rank = Rank::Of(i < senders ? from.value() + (i + turn) % senders : to.value() + i - senders);
    }
  }
  return *std::move(plan);
}

std::string GroupNameOf(const EngineSpec& spec, const Boundary& boundary,
                        const std::vector<Rank>& ranks) {
  std::string name = TransferGroupName(boundary.from, boundary.to, boundary.wraps);
  const Place first = PlaceOf(spec, ranks.front()), last = PlaceOf(spec, ranks.back());
  const bool same_place = first.replica == last.replica && first.tp_rank == last.tp_rank;
  if (ranks.size() == 2 && first.stage != last.stage && same_place) return name;
  const auto text = [](std::string* out, Rank rank) { absl::StrAppend(out, rank.value()); };
  return absl::StrCat(name, ".", absl::StrJoin(ranks, "-", text));
}

std::string TransferKindOf(const EngineSpec& spec, const Place& place) {
  const Rank rank = RankAt(spec, place);
  const bool chains =
      !spec.schedule.sequence_parallel && spec.schedule.transfer == Transfer::kChain;
  std::string kind;
  const auto append = [&](const Boundary& boundary) {
    const bool sends = boundary.from == place.stage;
    for (const CommonRows& rows : CommonRowsOf(spec, boundary, place)) {
      absl::StrAppend(&kind, " ", boundary.from, "-", boundary.to, ".s",
                      (sends ? rows.from : rows.to).slice, ":");
      for (const Step& step : TransferPlan(spec, boundary, rows).steps) {
        const auto at = std::find(step.ranks.begin(), step.ranks.end(), rank);
        if (at == step.ranks.end()) continue;
        absl::StrAppend(&kind, at - step.ranks.begin(), "/", step.ranks.size(), PrintBox(step.box));
      }
    }
  };
  for (int other : {place.stage - 1, place.stage + 1}) {
    if (other < 0 || other >= spec.pp_size) continue;
    const bool alike = TpSizeOf(spec, other) == TpSizeOf(spec, place.stage) &&
                       ReplicasOf(spec, other) == ReplicasOf(spec, place.stage);
    if (alike && !chains) continue;
    append({.from = place.stage, .to = other});
    append({.from = other, .to = place.stage});
  }
  return kind;
}

bool MembersAreAlike(const EngineSpec& spec, Rank rank, const Group& group) {
  const std::string axis = group.axis();
  if (axis == kPpGroupName) return false;
  // Replicas at the same place of a stage send and receive the same rows of their own. With ZeRO
  // they update different parameters, so their tensors may be at other offsets.
  if (axis == kDpGroupName && spec.zero > 0) return false;
  if (axis == kDpGroupName && ReplicasAreEqual(spec)) return true;
  const std::string kind = TransferKindOf(spec, PlaceOf(spec, rank));
  return std::all_of(group.ranks.begin(), group.ranks.end(), [&](Rank member) {
    return member == rank || TransferKindOf(spec, PlaceOf(spec, member)) == kind;
  });
}

}  // namespace stretto
