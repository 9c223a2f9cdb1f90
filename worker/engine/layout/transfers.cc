// SPDX-License-Identifier: Apache-2.0

// The planner sees two nodes, on which the senders are ranks 0 to n - 1 and the receivers the ones
// behind them. Its plan therefore is the same for all replicas; the job's ranks replace those. An
// element of the planner's tensor is a row, so that parts of a gather are whole rows, which are
// contiguous, and nothing needs to be packed.

#include "worker/engine/layout/transfers.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/check.h"
#include "worker/engine/layout/layout.h"

namespace stretto {
namespace {

constexpr LinkCost kLink = {.bytes_per_second = 1.25e9, .latency_seconds = 50e-6};

// The rows that `ranks` ranks hold, of which `first` is the first.
Tiling TilingOf(const EngineSpec& spec, int ranks, Rank first, int64_t rows) {
  Tiling tiling{.shape = {rows}, .tiles = {}};
  const int tiles = spec.schedule.sequence_parallel ? ranks : 1;
  for (int tile = 0; tile < tiles; ++tile) {
    tiling.tiles.push_back(
        {.box = {.starts = {tile * (rows / tiles)}, .extents = {rows / tiles}}, .ranks = {}});
  }
  for (int i = 0; i < ranks; ++i)
    tiling.tiles[static_cast<size_t>(i % tiles)].ranks.push_back(Rank::Of(first.value() + i));
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

Tiling RowsOf(const EngineSpec& spec, int stage, int replica, int64_t rows) {
  Tiling tiling = TilingOf(spec, TpSizeOf(spec, stage),
                           RankAt(spec, {.stage = stage, .replica = replica}), rows);
  tiling.shape.push_back(spec.model.hidden);
  for (Tile& tile : tiling.tiles) AddColumns(spec, &tile.box);
  return tiling;
}

Resharding TransferPlan(const EngineSpec& spec, const Boundary& boundary, int64_t rows) {
  const int senders = TpSizeOf(spec, boundary.from), receivers = TpSizeOf(spec, boundary.to);
  Topology topology;
  for (int i = 0; i < senders + receivers; ++i) topology.node.push_back(i < senders ? 0 : 1);
  const DType wire = spec.dtype == DType::kBF16 ? spec.dtype : spec.wire_dtype;
  auto plan = PlanResharding(TilingOf(spec, senders, 0, rows),
                             TilingOf(spec, receivers, Rank::Of(senders), rows), topology, kLink,
                             int64_t{spec.model.hidden} * static_cast<int64_t>(SizeOf(wire)),
                             {.mode = ModeOf(spec, senders, receivers)});
  STRETTO_CHECK(plan.ok());
  const Rank from = RankAt(spec, {.stage = boundary.from, .replica = boundary.replica}),
             to = RankAt(spec, {.stage = boundary.to, .replica = boundary.replica});
  for (Step& step : plan->steps) {
    AddColumns(spec, &step.box);
    for (Rank& rank : step.ranks) {
      const int i = rank.value();
      rank = Rank::Of(i < senders ? from.value() + i : to.value() + i - senders);
    }
  }
  return *std::move(plan);
}

std::string GroupNameOf(const EngineSpec& spec, const Boundary& boundary,
                        const std::vector<Rank>& ranks) {
  std::string name = TransferGroupName(boundary.from, boundary.to, boundary.wraps);
  const Place first = PlaceOf(spec, ranks.front()), last = PlaceOf(spec, ranks.back());
  if (ranks.size() == 2 && first.stage != last.stage && first.tp_rank == last.tp_rank) return name;
  const auto text = [](std::string* out, Rank rank) { absl::StrAppend(out, rank.value()); };
  return absl::StrCat(name, ".", absl::StrJoin(ranks, "-", text));
}

bool RanksAreAlike(const EngineSpec& spec, int stage) {
  const int tp = TpSizeOf(spec, stage);
  if (tp == 1) return true;
  bool alike = spec.schedule.sequence_parallel || spec.schedule.transfer != Transfer::kChain;
  for (int other : {stage - 1, stage + 1}) {
    if (other >= 0 && other < spec.pp_size) alike &= TpSizeOf(spec, other) == tp;
  }
  return alike;
}

bool MembersAreAlike(const EngineSpec& spec, Rank rank, const Group& group) {
  const std::string axis = group.axis();
  if (axis == kPpGroupName) return false;
  // Replicas at the same place of a stage are alike, whatever others send.
  return axis == kDpGroupName || RanksAreAlike(spec, PlaceOf(spec, rank).stage);
}

}  // namespace stretto
