// SPDX-License-Identifier: Apache-2.0

// Checks in order of dependence, so that each check may rely on those before it: lanes and groups,
// buffers, the operands of each operation, arenas, then happens-before, races and values.
// Operations that the check of operands cannot distinguish are checked once.

#include "worker/engine/program/verify.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/engine/program/happens_before.h"
#include "worker/engine/program/race_check.h"
#include "worker/engine/program/text.h"
#include "worker/engine/program/verify_shapes.h"

namespace stretto {
namespace {

std::string NameOfBuffer(const Program& program, BufferId id) {
  return absl::StrCat("%", id.value(), " (", program.buffers[id].name, ")");
}

absl::Status VerifyGroups(const Program& program) {
  for (const Group& group : program.groups) {
    const std::set<Rank> ranks(group.ranks.begin(), group.ranks.end());
    const bool valid = ranks.contains(program.rank) && ranks.size() == group.ranks.size() &&
                       *ranks.begin() >= 0 && ranks.rbegin()->value() < program.world_size;
    if (valid) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "group ", group.name, ": found ranks ", PrintRanks(group.ranks), ", expected ranks below ",
        program.world_size, ", each once, rank ", program.rank.value(), " among them"));
  }
  return absl::OkStatus();
}

// Ranks find each other's groups, and traces find lanes, by name.
template <class Id, class T>
absl::Status VerifyNames(const IdVector<Id, T>& items, absl::string_view what) {
  std::set<absl::string_view> names;
  for (const T& item : items) {
    if (names.insert(item.name).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(what, " ", item.name, ": found two of this name, expected one"));
  }
  return absl::OkStatus();
}

// The lane and the group of each operation exist, and each group has one lane: a channel serves one
// thread at a time.
absl::Status VerifyLanes(const Program& program) {
  IdVector<GroupId, OpId> first(program.groups.size());
  for (OpId index : program.ops.ids()) {
    const Op& op = program.ops[index];
    const auto error = [&](const auto&... words) {
      return absl::InvalidArgumentError(
          absl::StrCat("operation ", index.value(), ": found ", words...));
    };
    if (!program.lanes.Has(op.lane)) {
      return error("lane ", op.lane.value(), ", expected below ", program.lanes.size());
    }
    if (!IsCollective(op.kind)) {
      if (op.group < 0) continue;
      return error("group ", op.group.value(), ", expected none, because it computes");
    }
    if (!program.groups.Has(op.group)) {
      return error("group ", op.group.value(), ", expected below ", program.groups.size());
    }
    const Group& group = program.groups[op.group];
    const bool first_rank = group.ranks.front() == program.rank;
    if (IsTransfer(op.kind) && (op.kind == OpKind::kSend) != first_rank) {
      return error(InfoOf(op.kind).name, " on rank ", program.rank.value(), " in group ",
                   group.name, ", expected that rank ", group.ranks.front().value(),
                   " sends and the others receive");
    }
    if (first[op.group] < 0) first[op.group] = index;
    const LaneId lane = program.ops[first[op.group]].lane;
    if (lane == op.lane) continue;
    return error("group ", group.name, " on lane ", program.lanes[op.lane].name, ", expected lane ",
                 program.lanes[lane].name, ", as operation ", first[op.group].value());
  }
  return absl::OkStatus();
}

absl::Status VerifyBuffer(const Program& program, BufferId id) {
  const Buffer& buffer = program.buffers[id];
  const auto error = [&](const auto&... words) {
    return absl::InvalidArgumentError(
        absl::StrCat("buffer ", NameOfBuffer(program, id), ": ", words...));
  };
  const bool extents = std::all_of(buffer.shape.begin(), buffer.shape.end(),
                                   [](int64_t extent) { return extent >= 0; });
  if (buffer.alias >= id || buffer.shape.empty() || !extents)
    return error("expected a shape and an alias to an earlier buffer");
  const Root root = RootOf(program.buffers, id);
  const Buffer& memory = program.buffers[root.buffer];
  if (memory.dtype != buffer.dtype)
    return error("found ", NameOf(buffer.dtype), ", expected ", NameOf(memory.dtype),
                 ", the type of its root");
  const int64_t begin = root.element * static_cast<int64_t>(SizeOf(buffer.dtype));
  if (begin < 0) return error("found begin at byte ", begin, " of its root, expected at least 0");
  if (begin + buffer.bytes() > memory.bytes())
    return error("found end at byte ", begin + buffer.bytes(), " of its root, expected at most ",
                 memory.bytes());
  return absl::OkStatus();
}

// Runs VerifyOperands once for all operations that it cannot distinguish: operations repeat from
// micro-batch to micro-batch and from layer to layer.
class OperandCheck {
 public:
  explicit OperandCheck(const Program& program) : program_(program) {
    std::map<std::tuple<DType, ArenaClass, std::vector<int64_t>>, int64_t> looks;
    for (const Buffer& buffer : program.buffers) {
      const int64_t next = static_cast<int64_t>(looks.size());
      looks_.push_back(
          looks.try_emplace({buffer.dtype, buffer.arena, buffer.shape}, next).first->second);
    }
  }

  // The operation's group must exist.
  absl::Status Check(OpId index) {
    const Op& op = program_.ops[index];
    if (!Describe(op)) return VerifyOperands(program_, index);
    key_.assign(reinterpret_cast<const char*>(words_.data()), words_.size() * sizeof(words_[0]));
    if (good_.contains(key_)) return absl::OkStatus();
    RETURN_IF_ERROR(VerifyOperands(program_, index));
    good_.insert(key_);
    return absl::OkStatus();
  }

 private:
  // Stores everything that VerifyOperands reads in words_. False when an operand does not exist.
  bool Describe(const Op& op) {
    words_.assign({static_cast<int64_t>(op.kind), op.group.value(),
                   static_cast<int64_t>(op.in.size()), static_cast<int64_t>(op.out.size())});
    for (const BufferList* ids : {&op.in, &op.out}) {
      for (BufferId id : *ids) {
        if (!looks_.Has(id)) return false;
        words_.push_back(looks_[id]);
      }
    }
    // The pattern of shared operands, which the in-place check compares.
    for (BufferId out : op.out) {
      for (size_t i = 0; i < op.in.size(); ++i)
        if (op.in[i] == out) words_.push_back(static_cast<int64_t>(i));
      words_.push_back(-1);
    }
    words_.insert(words_.end(), op.attributes.begin(), op.attributes.end());
    return true;
  }

  const Program& program_;
  IdVector<BufferId, int64_t> looks_;  // of every buffer: equal when type, arena and shape are
  std::vector<int64_t> words_;
  std::string key_;  // the bytes of words_
  std::unordered_set<std::string> good_;
};

absl::Status VerifyStructure(const Program& program) {
  RETURN_IF_ERROR(VerifyGroups(program));
  RETURN_IF_ERROR(VerifyNames(program.groups, "group"));
  RETURN_IF_ERROR(VerifyNames(program.lanes, "lane"));
  RETURN_IF_ERROR(VerifyLanes(program));
  for (BufferId id : program.buffers.ids()) RETURN_IF_ERROR(VerifyBuffer(program, id));
  OperandCheck operands(program);
  for (OpId op : program.ops.ids()) RETURN_IF_ERROR(operands.Check(op));
  return absl::OkStatus();
}

absl::Status VerifyArenas(const Program& program, const ArenaBytes& arenas) {
  for (BufferId id : program.buffers.ids()) {
    const Buffer& buffer = program.buffers[id];
    if (buffer.alias >= 0) continue;
    const int64_t limit = arenas[buffer.arena];
    if (buffer.offset >= 0 && buffer.offset + buffer.bytes() <= limit) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("arena overrun: buffer ", NameOfBuffer(program, id), " at offset ",
                     buffer.offset, " of ", buffer.bytes(), " bytes, expected to lie inside the ",
                     NameOf(buffer.arena), " arena of ", limit, " bytes"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Verify(const Program& program, const ArenaBytes* arenas,
                    absl::Span<const CanonicalValues> canonical) {
  RETURN_IF_ERROR(VerifyStructure(program));
  if (arenas != nullptr) RETURN_IF_ERROR(VerifyArenas(program, *arenas));
  ASSIGN_OR_RETURN(const HappensBefore order, HappensBefore::Build(program));
  RETURN_IF_ERROR(CheckRaces(program, order));
  for (const CanonicalValues& values : canonical)
    RETURN_IF_ERROR(CheckSameValues(values, program, order));
  return absl::OkStatus();
}

}  // namespace stretto
