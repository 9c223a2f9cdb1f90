// SPDX-License-Identifier: Apache-2.0

// Emits for each rank the steps that it takes part in. A box that is contiguous in a tile is a view
// of it, so that a transfer reads or writes the tile itself. Any other box is packed into a buffer
// of its own before it is sent, once however often it is sent, and unpacked after it was received.
// The parts of a gather land side by side, in the tile or in a buffer of their own.

#include "worker/engine/reshard/program/emit.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "worker/engine/memory/plan.h"
#include "worker/engine/schedule/passes.h"

namespace stretto {
namespace {

// Whether the elements of `inner`, a box inside `outer`, are contiguous in `outer`.
bool IsContiguous(const Box& outer, const Box& inner) {
  size_t d = 0;
  while (d < inner.extents.size() && inner.extents[d] == 1) ++d;
  for (++d; d < inner.extents.size(); ++d) {
    if (inner.extents[d] != outer.extents[d]) return false;
  }
  return true;
}

// The element of `outer` at which `inner` starts.
int64_t ElementOf(const Box& outer, const Box& inner) {
  int64_t element = 0;
  for (size_t d = 0; d < outer.extents.size(); ++d) {
    element = element * outer.extents[d] + inner.starts[d] - outer.starts[d];
  }
  return element;
}

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
    in_ = TileOf("in", from, ArenaClass::kInput);
    out_ = TileOf("out", to, ArenaClass::kOutput);
    made_.in = in_.buffer;
    made_.out = out_.buffer;
    // Packs first: no copy that waits for a receive delays what others wait for.
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      const Step& step = plan_.steps[i];
      if (step.kind == Step::Kind::kChain && step.ranks.at(0) == rank_) Pack(i, step.box);
      if (step.kind == Step::Kind::kGather && TakesPart(step)) MakeRoom(i, step);
    }
    for (const LocalCopy& copy : plan_.copies) {
      if (copy.rank == rank_) CopyHere(copy.box);
    }
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      const Step& step = plan_.steps[i];
      if (!TakesPart(step)) continue;
      step.kind == Step::Kind::kChain ? Chain(i, step) : Gather(i, step);
    }
    AssignWaits(&made_.step);
    return std::move(made_);
  }

 private:
  // A buffer that holds a box of the tensor.
  struct Piece {
    BufferId buffer;
    Box box;
  };

  bool TakesPart(const Step& step) const {
    return std::find(step.ranks.begin(), step.ranks.end(), rank_) != step.ranks.end();
  }

  Piece TileOf(const char* name, const Tiling& tiling, ArenaClass arena) {
    for (const Tile& tile : tiling.tiles) {
      if (std::find(tile.ranks.begin(), tile.ranks.end(), rank_) == tile.ranks.end()) continue;
      return {made_.step.buffers.Add(
                  {.name = name, .dtype = dtype_, .shape = tile.box.extents, .arena = arena}),
              tile.box};
    }
    return {};
  }

  Piece Scratch(const std::string& name, const Box& box) {
    return {made_.step.buffers.Add({.name = name, .dtype = dtype_, .shape = box.extents}), box};
  }

  // The buffer of a box that is contiguous in a piece.
  BufferId ViewOf(const Piece& piece, const Box& box, int64_t element) {
    const Buffer& whole = made_.step.buffers[piece.buffer];
    return made_.step.buffers.Add({.name = absl::StrCat(whole.name, "+", element),
                                   .dtype = dtype_,
                                   .shape = box.extents,
                                   .arena = whole.arena,
                                   .alias = piece.buffer,
                                   .alias_offset = element});
  }
  BufferId ViewOf(const Piece& piece, const Box& box) {
    return ViewOf(piece, box, ElementOf(piece.box, box));
  }

  void Add(OpKind kind, const char* name, size_t step, GroupId group, std::vector<BufferId> in,
           std::vector<BufferId> out, std::vector<int64_t> attributes) {
    made_.step.units[UnitId(0)].ops.Add({.kind = kind,
                                         .lane = group >= 0 ? transfers_ : compute_,
                                         .group = group,
                                         .tag = {.name = name, .slice = static_cast<int>(step)},
                                         .in = std::move(in),
                                         .out = std::move(out),
                                         .attributes = std::move(attributes),
                                         .waits = {}});
  }

  // Copies a box from one piece that contains it to another.
  void Copy(const char* name, size_t step, const Box& box, const Piece& x, const Piece& y) {
    std::vector<int64_t> attributes;
    for (const Piece* piece : {&x, &y}) {
      for (size_t d = 0; d < 4; ++d) {
        attributes.push_back(d < box.starts.size() ? box.starts[d] - piece->box.starts[d] : 0);
      }
    }
    for (size_t d = 0; d < 4; ++d) {
      attributes.push_back(d < box.extents.size() ? box.extents[d] : 1);
    }
    Add(OpKind::kCopyBox, name, step, -1, {x.buffer}, {y.buffer}, std::move(attributes));
  }

  // A view of the tile does not conflict with transfers into the rest of it.
  void CopyHere(const Box& box) {
    const bool view = IsContiguous(out_.box, box);
    Copy("keep", 0, box, in_, view ? Piece{ViewOf(out_, box), box} : out_);
  }

  void Pack(size_t i, const Box& box) {
    const auto [packed, is_new] = packed_.try_emplace(PrintBox(box));
    if (!is_new) return;
    if (IsContiguous(in_.box, box)) {
      packed->second = ViewOf(in_, box);
      return;
    }
    const Piece whole = Scratch(absl::StrCat("packed.", i), box);
    packed->second = whole.buffer;
    Copy("pack", i, box, in_, whole);
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

  void Chain(size_t i, const Step& step) {
    const GroupId group = GroupOf(step.ranks);
    if (step.ranks[0] == rank_) {
      Add(OpKind::kSend, "chain", i, group, {packed_.at(PrintBox(step.box))}, {}, {0});
      return;
    }
    if (const auto part = parts_.find(PrintBox(step.box)); part != parts_.end()) {
      Add(OpKind::kRecv, "chain", i, group, {}, {part->second}, {0});
      return;
    }
    const bool view = IsContiguous(out_.box, step.box);
    const Piece landing = view ? Piece{ViewOf(out_, step.box), step.box}
                               : Scratch(absl::StrCat("received.", i), step.box);
    Add(OpKind::kRecv, "chain", i, group, {}, {landing.buffer}, {0});
    if (!view) Copy("unpack", i, step.box, landing, out_);
  }

  // The memory of a gathered box, whose parts follow each other in the order of the ranks.
  struct Room {
    BufferId whole;
    std::vector<Piece> parts;
    bool unpacks = false;
  };

  void MakeRoom(size_t i, const Step& step) {
    const int n = std::ssize(step.ranks);
    Room room;
    for (int part = 0; part < n; ++part) {
      room.parts.push_back({BufferId(), PartOf(step.box, step.cut, part, n)});
    }
    room.unpacks =
        !IsContiguous(out_.box, step.box) || !IsContiguous(step.box, room.parts.front().box);
    const Piece piece = room.unpacks ? Scratch(absl::StrCat("gathered.", i), step.box) : out_;
    room.whole = room.unpacks ? piece.buffer : ViewOf(out_, step.box);
    const int64_t start = room.unpacks ? 0 : ElementOf(out_.box, step.box);
    for (int part = 0; part < n; ++part) {
      const Box& box = room.parts[part].box;
      room.parts[part].buffer = ViewOf(piece, box, start + part * VolumeOf(box));
      if (step.ranks[part] == rank_) parts_.emplace(PrintBox(box), room.parts[part].buffer);
    }
    rooms_.emplace(PrintBox(step.box), std::move(room));
  }

  void Gather(size_t i, const Step& step) {
    const Room& room = rooms_.at(PrintBox(step.box));
    const auto mine = std::find(step.ranks.begin(), step.ranks.end(), rank_) - step.ranks.begin();
    Add(OpKind::kAllGather, "gather", i, GroupOf(step.ranks), {room.parts[mine].buffer},
        {room.whole}, {0});
    if (!room.unpacks) return;
    for (const Piece& part : room.parts) Copy("unpack", i, part.box, part, out_);
  }

  const Resharding& plan_;
  const DType dtype_;
  const Rank rank_;
  ReshardProgram made_;
  LaneId compute_, transfers_;
  Piece in_, out_;
  // By box, as PrintBox writes it.
  std::map<std::string, BufferId> packed_;  // what this rank sends
  std::map<std::string, BufferId> parts_;   // where its parts of gathers land
  std::map<std::string, Room> rooms_;
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
