#include "worker/engine/program/verify.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "worker/engine/program/happens_before.h"
#include "worker/engine/program/memory_map.h"
#include "worker/engine/program/text.h"
#include "worker/engine/program/verify_shapes.h"

namespace stretto {
namespace {

std::string NameOfBuffer(const Program& program, int id) {
  return absl::StrCat("%", id, " (", program.buffers[static_cast<size_t>(id)].name, ")");
}

absl::Status VerifyGroups(const Program& program) {
  for (const Group& group : program.groups) {
    bool valid = !group.ranks.empty();
    for (size_t i = 0; i < group.ranks.size(); ++i) {
      valid = valid && group.ranks[i] < program.world_size &&
              group.ranks[i] > (i == 0 ? -1 : group.ranks[i - 1]);
    }
    if (!valid || !std::binary_search(group.ranks.begin(), group.ranks.end(), program.rank)) {
      return absl::InvalidArgumentError(
          absl::StrCat("group ", group.name, ": found ranks ", absl::StrJoin(group.ranks, ","),
                       ", expected ranks below ", program.world_size, ", ascending, rank ",
                       program.rank, " among them"));
    }
  }
  return absl::OkStatus();
}

absl::Status VerifyStructure(const Program& program) {
  RETURN_IF_ERROR(VerifyGroups(program));
  for (const Lane& lane : program.lanes) {
    if (lane.group >= static_cast<int>(program.groups.size())) {
      return absl::InvalidArgumentError(absl::StrCat("lane ", lane.name, ": found group ",
                                                     lane.group, ", expected below ",
                                                     program.groups.size()));
    }
  }
  for (size_t id = 0; id < program.buffers.size(); ++id) {
    const Buffer& buffer = program.buffers[id];
    const bool dangling = buffer.alias >= static_cast<int>(id) || buffer.shape.empty();
    if (dangling) {
      return absl::InvalidArgumentError(
          absl::StrCat("buffer ", NameOfBuffer(program, static_cast<int>(id)),
                       ": expected a shape and an alias to an earlier buffer"));
    }
    const Root root = RootOf(program.buffers, static_cast<int>(id));
    const Buffer& memory = program.buffers[static_cast<size_t>(root.buffer)];
    if (memory.dtype != buffer.dtype) {
      return absl::InvalidArgumentError(absl::StrCat(
          "buffer ", NameOfBuffer(program, static_cast<int>(id)), ": found ", NameOf(buffer.dtype),
          ", expected ", NameOf(memory.dtype), ", the type of its root"));
    }
    const int64_t size = static_cast<int64_t>(SizeOf(buffer.dtype));
    if (root.element * size + buffer.bytes() > memory.bytes()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "buffer ", NameOfBuffer(program, static_cast<int>(id)), ": found end at byte ",
          root.element * size + buffer.bytes(), " of its root, expected at most ", memory.bytes()));
    }
  }
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const int lane = program.ops[i].lane;
    if (lane < 0 || lane >= static_cast<int>(program.lanes.size())) {
      return absl::InvalidArgumentError(absl::StrCat("operation ", i, ": found lane ", lane,
                                                     ", expected below ", program.lanes.size()));
    }
    RETURN_IF_ERROR(VerifyOperands(program, static_cast<int>(i)));
  }
  return absl::OkStatus();
}

absl::Status VerifyArenas(const Program& program, const ArenaBytes& arenas) {
  for (size_t id = 0; id < program.buffers.size(); ++id) {
    const Buffer& buffer = program.buffers[id];
    if (buffer.alias >= 0) continue;
    const int64_t limit = arenas[static_cast<size_t>(buffer.arena)];
    if (buffer.offset >= 0 && buffer.offset + buffer.bytes() <= limit) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "arena overrun: buffer ", NameOfBuffer(program, static_cast<int>(id)), " at offset ",
        buffer.offset, " of ", buffer.bytes(), " bytes, expected to lie inside the ",
        NameOf(buffer.arena), " arena of ", limit, " bytes"));
  }
  return absl::OkStatus();
}

// Disjoint byte intervals of one root that hold a value.
class Defined {
 public:
  void Add(int64_t begin, int64_t end) {
    auto it = intervals_.lower_bound(begin);
    if (it != intervals_.begin() && std::prev(it)->second >= begin) --it;
    while (it != intervals_.end() && it->first <= end) {
      begin = std::min(begin, it->first);
      end = std::max(end, it->second);
      it = intervals_.erase(it);
    }
    intervals_[begin] = end;
  }
  bool Covers(int64_t begin, int64_t end) const {
    auto it = intervals_.upper_bound(begin);
    return begin == end || (it != intervals_.begin() && std::prev(it)->second >= end);
  }
  void Clear() { intervals_.clear(); }

 private:
  std::map<int64_t, int64_t> intervals_;
};

// Walks the operations in one legal order and keeps, per buffer and lane, the last access.
class RaceCheck {
 public:
  RaceCheck(const Program& program, const HappensBefore& order)
      : program_(program),
        order_(order),
        regions_(RegionsOf(program.buffers)),
        overlaps_(OverlapsOf(regions_)),
        lanes_(program.lanes.size()),
        reads_(program.buffers.size() * lanes_, -1),
        writes_(reads_),
        defined_(program.buffers.size()) {
    for (size_t id = 0; id < program.buffers.size(); ++id) {
      root_.push_back(RootOf(program.buffers, static_cast<int>(id)).buffer);
      const ArenaClass arena = program.buffers[id].arena;
      const bool external = arena == ArenaClass::kParameter || arena == ArenaClass::kOptimizer ||
                            arena == ArenaClass::kInput;
      if (external && root_[id] == static_cast<int>(id))
        defined_[id].Add(regions_[id].begin, regions_[id].end);
    }
  }

  absl::Status Run() {
    for (int op : order_.order()) {
      const Op& operation = program_.ops[static_cast<size_t>(op)];
      RETURN_IF_ERROR(CheckOutputs(op));
      for (int id : operation.in) {
        RETURN_IF_ERROR(CheckDefined(op, id));
        RETURN_IF_ERROR(CheckOrdered(op, id, writes_, "writes"));
      }
      for (int id : operation.out) {
        RETURN_IF_ERROR(CheckOrdered(op, id, writes_, "writes"));
        RETURN_IF_ERROR(CheckOrdered(op, id, reads_, "reads"));
      }
      for (int id : operation.in) Last(reads_, id, operation.lane) = op;
      for (int id : operation.out) {
        Last(writes_, id, operation.lane) = op;
        Define(id);
      }
    }
    return absl::OkStatus();
  }

 private:
  int& Last(std::vector<int>& accesses, int id, int lane) {
    return accesses[static_cast<size_t>(id) * lanes_ + static_cast<size_t>(lane)];
  }

  // An output lies on another operand only where the operation works in place: the two are then one
  // buffer, or begin at the same address.
  absl::Status CheckOutputs(int op) const {
    const Op& operation = program_.ops[static_cast<size_t>(op)];
    const OpInfo& info = InfoOf(operation.kind);
    for (size_t o = 0; o < operation.out.size(); ++o) {
      const Region& out = regions_[static_cast<size_t>(operation.out[o])];
      for (size_t i = 0; i < operation.in.size(); ++i) {
        const Region& in = regions_[static_cast<size_t>(operation.in[i])];
        if (!out.Overlaps(in) || (MayShare(info, i, o) && out.begin == in.begin)) continue;
        return Clash(op, operation.out[o], operation.in[i]);
      }
      for (size_t other = o + 1; other < operation.out.size(); ++other) {
        if (!out.Overlaps(regions_[static_cast<size_t>(operation.out[other])])) continue;
        return Clash(op, operation.out[o], operation.out[other]);
      }
    }
    return absl::OkStatus();
  }

  static bool MayShare(const OpInfo& info, size_t input, size_t output) {
    const absl::string_view in = info.inputs[input], out = info.outputs[output];
    return (in[0] == '=' && in == out) || (info.kind == OpKind::kGeluGrad && in == "da") ||
           (info.kind == OpKind::kLayerNormDgrad && in == "residual?");
  }

  absl::Status Clash(int op, int out, int other) const {
    return absl::InvalidArgumentError(absl::StrCat(
        "operand overwritten: ", PrintOp(program_, op), " writes ", NameOfBuffer(program_, out),
        " over its own operand ", NameOfBuffer(program_, other)));
  }

  absl::Status CheckDefined(int op, int id) {
    const Region& region = regions_[static_cast<size_t>(id)];
    if (defined_[static_cast<size_t>(root_[static_cast<size_t>(id)])].Covers(region.begin,
                                                                             region.end)) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "read without a writer: ", PrintOp(program_, op), " reads ", NameOfBuffer(program_, id),
        ", which nothing wrote before, or something overwrote"));
  }

  absl::Status CheckOrdered(int op, int id, std::vector<int>& accesses, absl::string_view verb) {
    RETURN_IF_ERROR(CheckPair(op, id, id, accesses, verb));
    for (int other : overlaps_[static_cast<size_t>(id)])
      RETURN_IF_ERROR(CheckPair(op, id, other, accesses, verb));
    return absl::OkStatus();
  }

  absl::Status CheckPair(int op, int id, int other, std::vector<int>& accesses,
                         absl::string_view verb) {
    for (size_t lane = 0; lane < lanes_; ++lane) {
      const int earlier = Last(accesses, other, static_cast<int>(lane));
      if (earlier < 0 || earlier == op || order_.Before(earlier, op)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("race: ", PrintOp(program_, op), " touches ", NameOfBuffer(program_, id),
                       " while ", PrintOp(program_, earlier), " ", verb, " ",
                       NameOfBuffer(program_, other), ", expected a wait between them"));
    }
    return absl::OkStatus();
  }

  void Define(int id) {
    const Region& region = regions_[static_cast<size_t>(id)];
    const int root = root_[static_cast<size_t>(id)];
    defined_[static_cast<size_t>(root)].Add(region.begin, region.end);
    for (int other : overlaps_[static_cast<size_t>(id)]) {
      const int other_root = root_[static_cast<size_t>(other)];
      if (other_root != root) defined_[static_cast<size_t>(other_root)].Clear();
    }
  }

  const Program& program_;
  const HappensBefore& order_;
  const std::vector<Region> regions_;
  const std::vector<std::vector<int>> overlaps_;
  const size_t lanes_;
  std::vector<int> root_;
  std::vector<int> reads_, writes_;  // [buffer][lane]: last operation, -1 for none
  std::vector<Defined> defined_;     // per root
};

}  // namespace

absl::Status Verify(const Program& program, const ArenaBytes* arenas) {
  RETURN_IF_ERROR(VerifyStructure(program));
  if (arenas != nullptr) RETURN_IF_ERROR(VerifyArenas(program, *arenas));
  ASSIGN_OR_RETURN(const HappensBefore order, HappensBefore::Build(program));
  return RaceCheck(program, order).Run();
}

}  // namespace stretto
