// SPDX-License-Identifier: Apache-2.0

// Writes down the steps that the rank takes part in. A box that is contiguous in a piece is a view
// of it, so that a transfer reads or writes the piece itself. Any other box is packed into a buffer
// of its own before it is sent, once however often it is sent, and unpacked after it was received.
// The parts of a gather are received side by side, in the piece or in a buffer of their own.

#include "worker/engine/reshard/operations.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

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
int64_t ElementOf(const Box& outer, const Box& inner) { return IndexIn(outer, inner.starts); }

class Writer {
 public:
  Writer(const Resharding& plan, Rank rank, HeldBox in, HeldBox out, DType wire,
         absl::string_view prefix, IdVector<BufferId, Buffer>* buffers)
      : plan_(plan),
        rank_(rank),
        in_(std::move(in)),
        out_(std::move(out)),
        wire_(wire),
        prefix_(prefix),
        buffers_(*buffers) {}

  std::vector<ReshardOp> Run() {
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
    return std::move(ops_);
  }

 private:
  bool TakesPart(const Step& step) const {
    return std::find(step.ranks.begin(), step.ranks.end(), rank_) != step.ranks.end();
  }

  // A buffer of its own, of the type of the rank's piece.
  HeldBox Scratch(absl::string_view purpose, size_t step, const Box& box) {
    const DType dtype = buffers_[in_.buffer >= 0 ? in_.buffer : out_.buffer].dtype;
    return {buffers_.Add({.name = absl::StrCat(prefix_, purpose, ".", step),
                          .dtype = dtype,
                          .shape = box.extents}),
            box};
  }

  // The buffer of a box that is contiguous in a piece, from an element on.
  BufferId ViewOf(const HeldBox& piece, const Box& box, int64_t element) {
    if (box.extents == piece.box.extents) return piece.buffer;
    Buffer view = buffers_[piece.buffer];
    absl::StrAppend(&view.name, "+", element);
    view.shape = box.extents;
    view.alias = piece.buffer;
    view.alias_offset = element;
    return buffers_.Add(std::move(view));
  }
  BufferId ViewOf(const HeldBox& piece, const Box& box) {
    return ViewOf(piece, box, ElementOf(piece.box, box));
  }

  void Add(ReshardRole role, size_t step, std::vector<Rank> ranks, OpKind kind, BufferList in,
           BufferList out, std::vector<int64_t> attributes) {
    ops_.push_back({.role = role,
                    .step = step,
                    .ranks = std::move(ranks),
                    .op = {.kind = kind,
                           .tag = {},
                           .in = std::move(in),
                           .out = std::move(out),
                           .attributes = std::move(attributes),
                           .waits = {}}});
  }

  // Copies a box from one piece that contains it to another.
  void Copy(ReshardRole role, size_t step, const Box& box, const HeldBox& x, const HeldBox& y) {
    std::vector<int64_t> attributes;
    for (const HeldBox* piece : {&x, &y}) {
      for (size_t d = 0; d < 4; ++d) {
        attributes.push_back(d < box.starts.size() ? box.starts[d] - piece->box.starts[d] : 0);
      }
    }
    for (size_t d = 0; d < 4; ++d) {
      attributes.push_back(d < box.extents.size() ? box.extents[d] : 1);
    }
    Add(role, step, {}, OpKind::kCopyBox, {x.buffer}, {y.buffer}, std::move(attributes));
  }

  // A view of the tile does not conflict with transfers into the rest of it.
  void CopyHere(const Box& box) {
    const bool view = IsContiguous(out_.box, box);
    Copy(ReshardRole::kKeep, 0, box, in_, view ? HeldBox{ViewOf(out_, box), box} : out_);
  }

  void Pack(size_t i, const Box& box) {
    const auto [packed, is_new] = packed_.try_emplace(PrintBox(box));
    if (!is_new) return;
    if (IsContiguous(in_.box, box)) {
      packed->second = ViewOf(in_, box);
      return;
    }
    const HeldBox whole = Scratch("packed", i, box);
    packed->second = whole.buffer;
    Copy(ReshardRole::kPack, i, box, in_, whole);
  }

  void AddChain(size_t i, const Step& step, OpKind kind, BufferList in, BufferList out) {
    Add(ReshardRole::kChain, i, step.ranks, kind, std::move(in), std::move(out),
        {static_cast<int64_t>(wire_)});
  }

  void Chain(size_t i, const Step& step) {
    const std::string box = PrintBox(step.box);
    if (step.ranks[0] == rank_) return AddChain(i, step, OpKind::kSend, {packed_.at(box)}, {});
    if (const auto part = parts_.find(box); part != parts_.end())
      return AddChain(i, step, OpKind::kRecv, {}, {part->second});
    const bool view = IsContiguous(out_.box, step.box);
    const HeldBox landing =
        view ? HeldBox{ViewOf(out_, step.box), step.box} : Scratch("received", i, step.box);
    AddChain(i, step, OpKind::kRecv, {}, {landing.buffer});
    if (!view) Copy(ReshardRole::kUnpack, i, step.box, landing, out_);
  }

  // The memory of a gathered box, whose parts follow each other in the order of the ranks.
  struct Room {
    BufferId whole;
    std::vector<HeldBox> parts;
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
    const HeldBox piece = room.unpacks ? Scratch("gathered", i, step.box) : out_;
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
    Add(ReshardRole::kGather, i, step.ranks, OpKind::kAllGather, {room.parts[mine].buffer},
        {room.whole}, {static_cast<int64_t>(wire_)});
    if (!room.unpacks) return;
    for (const HeldBox& part : room.parts) Copy(ReshardRole::kUnpack, i, part.box, part, out_);
  }

  const Resharding& plan_;
  const Rank rank_;
  const HeldBox in_, out_;
  const DType wire_;
  const std::string prefix_;
  IdVector<BufferId, Buffer>& buffers_;
  std::vector<ReshardOp> ops_;
  // By box, as PrintBox writes it.
  std::map<std::string, BufferId> packed_;  // what this rank sends
  std::map<std::string, BufferId> parts_;   // where its parts of gathers land
  std::map<std::string, Room> rooms_;
};

}  // namespace

const char* NameOf(ReshardRole role) {
  switch (role) {
    case ReshardRole::kPack:
      return "pack";
    case ReshardRole::kKeep:
      return "keep";
    case ReshardRole::kChain:
      return "chain";
    case ReshardRole::kGather:
      return "gather";
    case ReshardRole::kUnpack:
      return "unpack";
  }
  return "?";
}

std::vector<ReshardOp> OperationsOf(const Resharding& plan, Rank rank, const HeldBox& in,
                                    const HeldBox& out, DType wire, absl::string_view prefix,
                                    IdVector<BufferId, Buffer>* buffers) {
  return Writer(plan, rank, in, out, wire, prefix, buffers).Run();
}

}  // namespace stretto
