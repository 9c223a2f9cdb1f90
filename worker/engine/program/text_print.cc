// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "worker/engine/program/text.h"

namespace stretto {
namespace {

std::string PrintIds(const BufferList& ids) {
  return absl::StrJoin(
      ids, ",", [](std::string* out, BufferId id) { absl::StrAppend(out, "%", id.value()); });
}

std::string PrintBuffer(const Buffer& buffer, BufferId id) {
  std::string line =
      absl::StrCat("buffer %", id.value(), " ", buffer.name, " ", NameOf(buffer.dtype), " ",
                   absl::StrJoin(buffer.shape, ","), " ", NameOf(buffer.arena));
  if (buffer.alias >= 0)
    absl::StrAppend(&line, " alias=%", buffer.alias.value(), "+", buffer.alias_offset);
  if (buffer.offset >= 0) absl::StrAppend(&line, " @", buffer.offset);
  return line;
}

std::string PrintAttribute(const OpInfo& info, const Op& op, size_t i) {
  absl::string_view name = info.attributes[i];
  if (!absl::ConsumePrefix(&name, "~")) return absl::StrCat(name, "=", op.attributes[i]);
  char digits[32];  // the shortest that parse to the same number
  const auto end =
      std::to_chars(std::begin(digits), std::end(digits), RealOf(op.attributes[i])).ptr;
  return absl::StrCat(name, "=", absl::string_view(digits, end - digits));
}

}  // namespace

std::string PrintTag(const Tag& tag) {
  std::string text;
  if (tag.layer >= 0) absl::StrAppend(&text, "L", tag.layer, ".");
  absl::StrAppend(&text, tag.name, " ", NameOf(tag.phase));
  if (tag.micro_batch >= 0) absl::StrAppend(&text, " mb", tag.micro_batch);
  if (tag.slice >= 0) absl::StrAppend(&text, " s", tag.slice);
  return text;
}

std::string PrintOp(const Program& program, OpId index) {
  const Op& op = program.ops.at(index);
  const OpInfo& info = InfoOf(op.kind);
  std::string line = absl::StrCat(index.value(), " ", program.lanes.at(op.lane).name, " ",
                                  info.name, " ", PrintTag(op.tag));
  if (!op.in.empty()) absl::StrAppend(&line, " in=", PrintIds(op.in));
  if (!op.out.empty()) absl::StrAppend(&line, " out=", PrintIds(op.out));
  if (op.group >= 0) absl::StrAppend(&line, " on=", program.groups.at(op.group).name);
  for (size_t i = 0; i < op.attributes.size(); ++i) {
    if (op.attributes[i] != 0) absl::StrAppend(&line, " ", PrintAttribute(info, op, i));
  }
  if (!op.waits.empty()) {
    absl::StrAppend(&line, " wait=", absl::StrJoin(op.waits, ",", [](std::string* out, OpId wait) {
      absl::StrAppend(out, wait.value());
    }));
  }
  return line;
}

std::string PrintRanks(const IdVector<GroupRank, Rank>& ranks) {
  return absl::StrJoin(ranks, ",",
                       [](std::string* out, Rank rank) { absl::StrAppend(out, rank.value()); });
}

std::string Print(const Program& program) {
  std::string text =
      absl::StrCat("program rank=", program.rank.value(), " world=", program.world_size, "\n");
  for (const Group& group : program.groups) {
    absl::StrAppend(&text, "group ", group.name, " ", PrintRanks(group.ranks), "\n");
  }
  for (const Lane& lane : program.lanes) {
    absl::StrAppend(&text, "lane ", lane.name, "\n");
  }
  for (BufferId id : program.buffers.ids()) {
    absl::StrAppend(&text, PrintBuffer(program.buffers[id], id), "\n");
  }
  for (OpId op : program.ops.ids()) absl::StrAppend(&text, PrintOp(program, op), "\n");
  return text;
}

}  // namespace stretto
