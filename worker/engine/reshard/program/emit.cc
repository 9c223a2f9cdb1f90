// SPDX-License-Identifier: Apache-2.0

// Puts the operations of each rank (reshard/operations.h) on two lanes and proves the programs.

#include "worker/engine/reshard/program/emit.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "worker/engine/memory/plan.h"
#include "worker/engine/reshard/operations.h"
#include "worker/engine/schedule/passes.h"

namespace stretto {
namespace {

class ReshardEmitter {
 public:
  ReshardEmitter(const Resharding& plan, DType dtype, Rank rank, int world_size)
      : plan_(plan), dtype_(dtype), rank_(rank) {
    made_.step.rank = rank;
    made_.step.world_size = world_size;
    compute_ = made_.step.lanes.Add({"compute"});
    transfers_ = made_.step.lanes.Add({LaneNameOf({kReshardAxis, {}})});
    made_.step.units.Add({"reshard", {}});
    made_.step.instances.Add({.unit = 0, .micro_batches = {}, .waits = {}});
  }

  ReshardProgram Run(const Tiling& from, const Tiling& to) {
    const HeldBox in = TileOf("in", from, ArenaClass::kInput),
                  out = TileOf("out", to, ArenaClass::kOutput);
    made_.in = in.buffer;
    made_.out = out.buffer;
    // Nothing is rounded: integers have no wire type, and f32 travels as it is.
    for (ReshardOp& of : OperationsOf(plan_, rank_, in, out, DType::kF32, "", &made_.step.buffers))
      Add(std::move(of));
    AssignWaits(&made_.step);
    return std::move(made_);
  }

 private:
  HeldBox TileOf(const char* name, const Tiling& tiling, ArenaClass arena) {
    for (const Tile& tile : tiling.tiles) {
      if (std::find(tile.ranks.begin(), tile.ranks.end(), rank_) == tile.ranks.end()) continue;
      return {made_.step.buffers.Add(
                  {.name = name, .dtype = dtype_, .shape = tile.box.extents, .arena = arena}),
              tile.box};
    }
    return {};
  }

  void Add(ReshardOp of) {
    Op op = std::move(of.op);
    op.tag = {.name = NameOf(of.role), .slice = static_cast<int>(of.step)};
    op.lane = compute_;
    if (!of.ranks.empty()) {
      op.lane = transfers_;
      op.group = GroupOf(of.ranks);
    }
    made_.step.units[UnitId(0)].ops.Add(std::move(op));
  }

  // The group of these ranks, in this order.
  GroupId GroupOf(const std::vector<Rank>& ranks) {
    const auto text = [](std::string* out, Rank rank) { absl::StrAppend(out, rank.value()); };
    const std::string name = absl::StrCat(kReshardAxis, ".", absl::StrJoin(ranks, "-", text));
    IdVector<GroupId, Group>& groups = made_.step.groups;
    for (GroupId id : groups.ids()) {
      if (groups[id].name == name) return id;
    }
    return groups.Add({name, IdVector<GroupRank, Rank>(ranks)});
  }

  const Resharding& plan_;
  const DType dtype_;
  const Rank rank_;
  ReshardProgram made_;
  LaneId compute_, transfers_;
};

absl::Status CheckRanks(const Tiling& tiling, int world_size) {
  for (const Tile& tile : tiling.tiles) {
    for (Rank rank : tile.ranks) {
      if (rank.value() < world_size) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("reshard: found rank ", rank.value(), ", expected below ", world_size));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<IdVector<Rank, ReshardProgram>> BuildReshardPrograms(const Resharding& plan,
                                                                    const Tiling& from,
                                                                    const Tiling& to, DType dtype,
                                                                    int world_size) {
  if (from.shape.size() > 4) {
    return absl::InvalidArgumentError(
        absl::StrCat("reshard: found ", from.shape.size(), " dimensions, expected at most 4"));
  }
  RETURN_IF_ERROR(CheckRanks(from, world_size));
  RETURN_IF_ERROR(CheckRanks(to, world_size));
  RETURN_IF_ERROR(CheckResharding(plan, from, to));
  IdVector<Rank, ReshardProgram> made;
  std::vector<Program> programs;
  for (Rank rank : IdRange<Rank>(world_size)) {
    ReshardProgram of_rank = ReshardEmitter(plan, dtype, rank, world_size).Run(from, to);
    of_rank.program = Expand(of_rank.step);
    ASSIGN_OR_RETURN(of_rank.arenas, PlanMemory(&of_rank.program));
    RETURN_IF_ERROR(Verify(of_rank.program, &of_rank.arenas));
    programs.push_back(of_rank.program);
    made.push_back(std::move(of_rank));
  }
  RETURN_IF_ERROR(VerifyRanks(programs));
  return made;
}

}  // namespace stretto
