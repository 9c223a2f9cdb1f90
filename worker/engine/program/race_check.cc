// SPDX-License-Identifier: Apache-2.0

// Walks the operations in one order that respects happens-before. Memory is cut into segments at
// the ends of every buffer, and each segment has its last writer and the last reader on each lane.
// Every access must come after the conflicting ones by the vector clocks, and a read must find the
// value of its own buffer. Adjacent segments with equal state are kept as one run.

#include "worker/engine/program/race_check.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/engine/program/memory_runs.h"
#include "worker/engine/program/text.h"

namespace stretto {
namespace {

// Walks the operations in one legal order and keeps, per piece of memory, the last writer and the
// last reader since on each lane. That suffices, because all accesses before the last write were
// proved to be ordered before it (FastTrack, Flanagan and Freund 2009).
class RaceCheck {
 public:
  RaceCheck(const Program& program, const HappensBefore& order)
      : program_(program),
        order_(order),
        regions_(RegionsOf(program.buffers)),
        runs_(regions_),
        lanes_(program.lanes.size()),
        owner_(runs_.count(), -1),
        writer_(owner_.size(), -1),
        readers_(owner_.size() * lanes_, -1) {
    root_.reserve(program.buffers.size());
    for (BufferId id : program.buffers.ids()) {
      root_.push_back(RootOf(program.buffers, id).buffer);
      // Memory that is filled before the step holds its value from the start, without a writer.
      if (!IsGiven(program.buffers[id].arena) || root_[id] != id) continue;
      Cut(id);
      Own(id, -1);
    }
  }

  absl::Status Run() {
    for (OpId op : order_.order()) {
      const Op& operation = program_.ops[op];
      RETURN_IF_ERROR(CheckOutputs(op));
      for (BufferId id : operation.in) RETURN_IF_ERROR(Read(op, operation.lane, id));
      for (BufferId id : operation.out) RETURN_IF_ERROR(Write(op, id));
    }
    return absl::OkStatus();
  }

 private:
  // An output may overlap another operand only when the operation works in place. The two are then
  // the same buffer, or start at the same address, or one is this rank's part of the other.
  absl::Status CheckOutputs(OpId op) const {
    const Op& operation = program_.ops[op];
    const OpInfo& info = InfoOf(operation.kind);
    for (size_t o = 0; o < operation.out.size(); ++o) {
      const Region& out = regions_[operation.out[o]];
      for (size_t i = 0; i < operation.in.size(); ++i) {
        const Region& in = regions_[operation.in[i]];
        if (!out.Overlaps(in) || (MayShare(info, i, o) && out.begin == in.begin)) continue;
        if (IsOwnPart(operation, in, out)) continue;
        return Clash(op, operation.out[o], operation.in[i]);
      }
      for (size_t other = o + 1; other < operation.out.size(); ++other) {
        if (!out.Overlaps(regions_[operation.out[other]])) continue;
        return Clash(op, operation.out[o], operation.out[other]);
      }
    }
    return absl::OkStatus();
  }

  static bool MayShare(const OpInfo& info, size_t input, size_t output) {
    const absl::string_view in = info.inputs[input];
    return in[0] == '=' ? in == info.outputs[output] : BareName(in) == info.overwrites;
  }

  // Whether a collective reads or writes the whole of a tensor, and the other operand is the part
  // of it that this rank has (comm/collective/collective.h).
  bool IsOwnPart(const Op& op, const Region& in, const Region& out) const {
    if (op.group < 0) return false;
    const CollectiveInfo& kind = InfoOf(InfoOf(op.kind).collective);
    if (kind.in_parts == kind.out_parts) return false;
    const Region &whole = kind.in_parts ? in : out, &part = kind.in_parts ? out : in;
    const IdVector<GroupRank, Rank>& ranks = program_.groups[op.group].ranks;
    const auto member = std::find(ranks.begin(), ranks.end(), program_.rank) - ranks.begin();
    return part.begin == whole.begin + member * (part.end - part.begin);
  }

  absl::Status Clash(OpId op, BufferId out, BufferId other) const {
    return absl::InvalidArgumentError(absl::StrCat("operand overwritten: ", PrintOp(program_, op),
                                                   " writes ", Name(out), " over its own operand ",
                                                   Name(other), ", expected them apart"));
  }

  absl::Status Read(OpId op, LaneId lane, BufferId id) {
    const BufferId root = root_[id];
    Cut(id);
    for (size_t run = runs_.Begin(id); run < runs_.End(id); run = runs_.Next(run)) {
      if (owner_[run] != root) return Undefined(op, id);
      if (!Ordered(writer_[run], op)) return Race(op, id, writer_[run], "writes");
      readers_[run * lanes_ + lane.position()] = op;
    }
    return absl::OkStatus();
  }

  absl::Status Write(OpId op, BufferId id) {
    Cut(id);
    for (size_t run = runs_.Begin(id); run < runs_.End(id); run = runs_.Next(run)) {
      if (!Ordered(writer_[run], op)) return Race(op, id, writer_[run], "writes");
      for (size_t lane = 0; lane < lanes_; ++lane) {
        const OpId reader = readers_[run * lanes_ + lane];
        if (!Ordered(reader, op)) return Race(op, id, reader, "reads");
      }
    }
    Own(id, op);
    return absl::OkStatus();
  }

  void Cut(BufferId id) {
    runs_.Cut(id, [this](size_t from, size_t to) {
      owner_[to] = owner_[from];
      writer_[to] = writer_[from];
      std::copy_n(Readers(from), lanes_, Readers(to));
    });
  }

  // Makes the buffer, at whose ends runs are already cut, one run that holds its value and has no
  // reader.
  void Own(BufferId id, OpId writer) {
    const size_t begin = runs_.Begin(id);
    if (begin == runs_.End(id)) return;
    runs_.Join(id);
    owner_[begin] = root_[id];
    writer_[begin] = writer;
    std::fill_n(Readers(begin), lanes_, OpId());
  }

  std::vector<OpId>::iterator Readers(size_t segment) {
    return readers_.begin() + static_cast<std::ptrdiff_t>(segment * lanes_);
  }
  bool Ordered(OpId earlier, OpId op) const {
    return earlier < 0 || earlier == op || order_.Before(earlier, op);
  }

  absl::Status Undefined(OpId op, BufferId id) const {
    return absl::InvalidArgumentError(
        absl::StrCat("read without a writer: ", PrintOp(program_, op), " reads ", Name(id),
                     ", which nothing wrote before, or something overwrote"));
  }

  absl::Status Race(OpId op, BufferId id, OpId earlier, absl::string_view verb) const {
    const Op& other = program_.ops[earlier];
    const BufferList& operands = verb == "writes" ? other.out : other.in;
    const Region& region = regions_[id];
    const auto hit = std::find_if(operands.begin(), operands.end(), [&](BufferId operand) {
      return region.Overlaps(regions_[operand]);
    });
    return absl::InvalidArgumentError(absl::StrCat(
        "race: ", PrintOp(program_, op), " touches ", Name(id), " while ",
        PrintOp(program_, earlier), " ", verb, " ", Name(*hit), ", expected a wait between them"));
  }

  std::string Name(BufferId id) const {
    return absl::StrCat("%", id.value(), " (", program_.buffers[id].name, ")");
  }

  const Program& program_;
  const HappensBefore& order_;
  const IdVector<BufferId, Region> regions_;
  MemoryRuns runs_;
  const size_t lanes_;
  IdVector<BufferId, BufferId> root_;
  std::vector<BufferId> owner_;  // [run]: the root buffer whose value it holds, -1 for none
  std::vector<OpId> writer_;     // [run]: its last writer, -1 for none in this program
  std::vector<OpId> readers_;    // [run][lane]: last reader since, -1 for none
};

}  // namespace

absl::Status CheckRaces(const Program& program, const HappensBefore& order) {
  return RaceCheck(program, order).Run();
}

}  // namespace stretto
